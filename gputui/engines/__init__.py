"""Engines carry instructions out: they start attempts, see their ends, stop them, and take over those that live on.

What may enter: `protocol`, which is all that an owner knows of an engine, and a package for each engine.
An engine never decides what runs, and never writes the store: it reports, and the owner's turn makes it durable.
Called by `session.owner`, which is handed its engine.
"""

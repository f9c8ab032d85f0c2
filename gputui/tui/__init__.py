"""The screen: a Textual app that shows snapshots and sends wishes; it owns nothing and decides next to nothing.

The rooms: `actions` is what keys do, `screens` and `widgets` draw, `model` is pure, `terminal` is the contract with
the terminal. `bridge` is the only crossing to the owner's thread.
Called by `cli.app` and `demo`; no room below imports it, and only these two import Textual.
"""

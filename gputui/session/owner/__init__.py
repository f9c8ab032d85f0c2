"""The owner: carries out requests and reports turn by turn. The steps of a turn are handle, place, commit, act, publish
and answer.

This package holds the steps of a turn, the requests that one turn carries out, and helpers that keep slow work out of a
turn. Nothing is started, ended or answered before it is durable. `ownership.acquisition` calls this package; other
threads use `Owner.do`, and other processes `session.control`.
"""

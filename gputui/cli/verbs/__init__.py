"""The verbs: one module each under its own name; siblings share one, and one with a room of its own lives there.

What may enter: a module with `main(verb, words) -> status`, named in the table `gputui.__main__.VERBS`.
A verb reads words, sends requests to the session's owner, and prints; it never opens a store itself.
Called by `gputui.__main__` alone. What two verbs need moves to `cli.parsing` or `cli.output`.
"""

"""Where batches are made: inline, in threads, in spawned processes.

Nothing is imported here: a worker process comes through this package before it has set the environment that numpy's
libraries look at when they are loaded.
"""

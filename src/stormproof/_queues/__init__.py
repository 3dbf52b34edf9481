"""Shared by the task queues: settings of a task, and the decision to queue it again."""

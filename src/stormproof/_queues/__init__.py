"""What task queues share: settings of a task, and the decision to queue it again."""

"""What really calls, sleeps, queues and races, in threads, asyncio and trio."""

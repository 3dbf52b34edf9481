"""Calls, sleeps, queues and races in threads, asyncio and trio."""

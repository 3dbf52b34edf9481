-- Whether the server takes a write now: a replica, or a server out of memory, answers with an error.
return redis.call('SET', KEYS[1], '1', 'PX', 1000)

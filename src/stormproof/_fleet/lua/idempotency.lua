-- One idempotency key. KEYS[1]: a hash: done, print (of the payload), owner, lease (its end), ends, answer.
-- Times are microseconds. The rule is that of idempotency/records.py, field by field.
-- ARGV: 1 operation, 2 owner, 3 lease, 4 kept for, 5 print, 6 take over, 7 "1" if there is an answer, 8 the
-- answer, 9 the time, where it is not this server's (tests).
-- Returns: what it came to, the answer, what is left of the lease.
local what, owner = ARGV[1], ARGV[2]
local lease, kept = tonumber(ARGV[3]), tonumber(ARGV[4])
local now = tonumber(ARGV[9])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local held = redis.call('HMGET', KEYS[1], 'done', 'print', 'owner', 'lease', 'ends', 'answer')
local found = held[1] and tonumber(held[5]) > now
local done, mine = held[1] == '1', held[3] == owner

local function keep(micros)
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(1000, math.ceil(micros / 1000))))
end

local function run(print)
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'done', '0', 'print', print, 'owner', owner, 'lease',
    string.format('%.0f', now + lease), 'ends', string.format('%.0f', now + lease + kept))
  keep(lease + kept)
end

if what == 'begin' then
  if not found then
    run(ARGV[5])
    return { 'new', '', 0 }
  elseif held[2] ~= ARGV[5] then
    return { 'mismatch', '', 0 }
  elseif done then
    return { held[6] and 'replay' or 'not kept', held[6] or '', 0 }
  elseif mine then
    run(ARGV[5])
    return { 'new', '', 0 }
  elseif tonumber(held[4]) > now then
    return { 'in_progress', '', tonumber(held[4]) - now }
  elseif ARGV[6] == '1' then
    run(ARGV[5])
    return { 'taken over', '', 0 }
  end
  return { 'unknown', '', 0 }
elseif what == 'forget' then
  redis.call('DEL', KEYS[1])
  return { found and 'yes' or 'no', '', 0 }
end

if not found or not mine or (done and what ~= 'finish') then
  return { 'no', '', 0 }
end
if what == 'release' then
  redis.call('DEL', KEYS[1])
elseif what == 'renew' then
  run(held[2])
elseif not done then
  redis.call('HSET', KEYS[1], 'done', '1', 'lease', string.format('%.0f', now), 'ends',
    string.format('%.0f', now + kept))
  if ARGV[7] == '1' then
    redis.call('HSET', KEYS[1], 'answer', ARGV[8])
  end
  keep(kept)
end
return { 'yes', '', 0 }

-- A token bucket for a fleet. KEYS[1]: a hash. Amounts are whole millionths of a token, times microseconds.
-- ARGV: 1 rate (millionths a second), 2 burst, 3 owed (charged in any case), 4 wanted (granted as far as
-- possible; negative: given back), 5 horizon in microseconds (how far ahead tokens may be lent),
-- 6 the epoch in which the caller was last counted.
-- Returns: granted, level before, level after, instances, epoch.
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local owed, wanted, horizon = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local held = redis.call('HMGET', KEYS[1], 'level', 'last', 'epoch', 'now', 'before')

local level, last = tonumber(held[1]) or burst, tonumber(held[2]) or now
if now > last then
  local exact = (now - last) * rate / 1000000
  local gained = math.floor(exact)
  level = math.min(burst, level + gained)
  -- What is less than a millionth goes on counting.
  last = rate > 0 and now - math.floor((exact - gained) * 1000000 / rate) or now
else
  -- A server that took over may be behind.
  last = now
  level = math.min(burst, level)
end

-- Who took part in this epoch of two seconds, and in the last one.
local epoch = math.floor(now / 2000000)
local count, before = 0, 0
if tonumber(held[3]) == epoch then
  count, before = tonumber(held[4]), tonumber(held[5])
elseif tonumber(held[3]) == epoch - 1 then
  before = tonumber(held[4])
end
if tonumber(ARGV[6]) ~= epoch or count == 0 then
  count = count + 1
end
local instances = math.max(count, before)

local start = level
level = level - owed
local granted = wanted
if wanted > 0 then
  local free = level + math.floor(rate * horizon / 1000000)
  -- One instance never takes what the others may be about to ask for.
  if instances > 1 then
    free = math.min(free, math.max(1000000, free / 2))
  end
  -- Whole tokens: a fraction of one is useless.
  granted = math.max(0, math.floor(math.min(wanted, free) / 1000000) * 1000000)
end
level = math.min(burst, level - granted)

redis.call('HSET', KEYS[1], 'level', string.format('%.0f', level), 'last', string.format('%.0f', last),
  'epoch', epoch, 'now', count, 'before', before)
-- A full bucket need not be remembered; any other at least until it is full.
local refill = 2592000000
if rate > 0 then
  refill = math.min(refill, math.ceil((burst - level) / rate) * 1000)
end
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(10000, refill)))
return {granted, start, level, instances, epoch}

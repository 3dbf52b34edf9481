-- The places of a fleet. KEYS[1]: a hash, a field an instance: its places, and until when.
-- ARGV: 1 instance, 2 limit, 3 wanted, 4 in use, 5 lease in microseconds.
-- Returns: granted, instances, whether another instance got less than it wanted.
local me, limit, wanted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local used, lease = tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local others, instances, hungry, last = 0, 1, 0, now + lease
local flat = redis.call('HGETALL', KEYS[1])
for place = 1, #flat, 2 do
  local who, value = flat[place], flat[place + 1]
  local places, ends, short = string.match(value, '^(%d+),(%d+),(%d)$')
  if not ends or tonumber(ends) < now then
    redis.call('HDEL', KEYS[1], who)
  elseif who ~= me then
    others, instances = others + tonumber(places), instances + 1
    last = math.max(last, tonumber(ends))
    if short == '1' then
      hungry = 1
    end
  end
end

local granted = math.max(0, math.min(wanted, limit - others))
local short = granted < wanted and 1 or 0
-- What is in use is taken, whether there was room for it or not.
local taken = math.max(granted, used)
if wanted == 0 and used == 0 and lease == 0 then
  redis.call('HDEL', KEYS[1], me)
else
  redis.call('HSET', KEYS[1], me, string.format('%.0f,%.0f,%d', taken, now + lease, short))
end
-- As long as the longest lease: an instance that leaves must not remove the places of the others.
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil((last - now) / 1000) + 1000))
return { granted, instances, hungry }

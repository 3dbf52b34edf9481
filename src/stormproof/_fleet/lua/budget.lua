-- A retry budget for a fleet, earned by success. KEYS[1]: a hash. Amounts are whole millionths of a token.
-- ARGV: 1 earned since the last time, 2 burst, 3 window in microseconds, 4 owed (charged in any case),
-- 5 wanted (granted as far as possible; negative: given back), 6 the epoch in which the caller was last
-- counted. Returns: granted, level after, instances, epoch.
local SLICES = 20
local earned, burst, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local owed, wanted = tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local held = redis.call('HMGET', KEYS[1], 'level', 'at', 'sums', 'epoch', 'now', 'before')

-- What the last window earned, in slices; whole slices fall out at its far end.
local at = math.floor(now / math.max(1, window / SLICES))
local then_at = tonumber(held[2]) or at
if at < then_at then
  at = then_at
end
local sums, total, place = {}, 0, 0
for amount in string.gmatch(held[3] or '', '[^,]+') do
  -- The first is the slice then_at, the next the one before it.
  local age = place + at - then_at
  if age < SLICES then
    sums[age + 1] = tonumber(amount)
    total = total + sums[age + 1]
  end
  place = place + 1
end
sums[1] = (sums[1] or 0) + earned
total = total + earned

local most = burst + total
local level = math.min(most, (tonumber(held[1]) or burst) + earned)

local epoch = math.floor(now / 2000000)
local count, before = 0, 0
if tonumber(held[4]) == epoch then
  count, before = tonumber(held[5]), tonumber(held[6])
elseif tonumber(held[4]) == epoch - 1 then
  before = tonumber(held[5])
end
if tonumber(ARGV[6]) ~= epoch or count == 0 then
  count = count + 1
end
local instances = math.max(count, before)

level = level - owed
local granted = wanted
if wanted > 0 then
  local free = level
  if instances > 1 then
    free = math.min(free, math.max(1000000, free / 2))
  end
  granted = math.max(0, math.floor(math.min(wanted, free) / 1000000) * 1000000)
end
level = math.min(most, level - granted)

local texts = {}
for slice = 1, SLICES do
  texts[slice] = string.format('%.0f', sums[slice] or 0)
end
redis.call('HSET', KEYS[1], 'level', string.format('%.0f', level), 'at', string.format('%.0f', at),
  'sums', table.concat(texts, ','), 'epoch', epoch, 'now', count, 'before', before)
-- Time refills nothing, so a budget that is not full is remembered for a day after its last use.
local keep = math.max(10000, math.ceil(window / 500))
if level < burst then
  keep = math.max(keep, 86400000)
end
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep))
return {granted, level, instances, epoch}

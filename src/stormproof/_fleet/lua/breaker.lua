-- The circuit of a fleet. KEYS[1]: a hash. Times are microseconds of this server's clock.
-- ARGV: 1 instance, 2 generation it last heard of, 3 calls and 4 failures since then, 5 its vote to open,
-- 6 whether it wants a probe, 7 probes that ended: token=outcome,token=outcome, 8 failure ratio in millionths
-- (0: opened by votes only), 9 calls it takes to judge, 10 window, 11 open for, 12 growth of that in
-- millionths, 13 its most, 14 probes, 15 lease of a probe, 16 quorum.
-- Returns: state, generation, open for how much longer, whether the counts were taken, token, instances,
-- instances that saw failures, whether another instance wants a probe and has none.
local SLICES, LIVE, WANTED = 10, 5000000, 1000000
local me, heard = ARGV[1], tonumber(ARGV[2])
local window, probes, lease, quorum = tonumber(ARGV[10]), tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local one = { state = 'closed', gen = 0, ['until'] = 0, reopened = 0, proved = 0, fence = 0 }
local many = { i = {}, f = {}, v = {}, p = {}, s = {}, w = {} }
local stored, gone = {}, {}
local flat = redis.call('HGETALL', KEYS[1])
for place = 1, #flat, 2 do
  local field, value = flat[place], flat[place + 1]
  local kind, rest = string.match(field, '^(%a):(.+)$')
  if kind and many[kind] then
    many[kind][rest] = value
    stored[field] = true
  elseif field == 'state' then
    one.state = value
  else
    one[field] = tonumber(value)
  end
end

-- i: seen, f: saw failures, v: voted, p: a probe, w: wants one, each until the time that is its value.
for _, kind in ipairs({ 'i', 'f', 'v', 'p', 'w' }) do
  for who, ends in pairs(many[kind]) do
    if tonumber(ends) < now then
      many[kind][who] = nil
    end
  end
end
local slot = math.floor(now / (window / SLICES))
for name in pairs(many.s) do
  if tonumber(name) <= slot - SLICES then
    many.s[name] = nil
  end
end
many.i[me] = now + LIVE

local function size(map)
  local n = 0
  for _ in pairs(map) do
    n = n + 1
  end
  return n
end

local function enter(state)
  one.state, one.gen, one.proved = state, one.gen + 1, 0
  many.v, many.p, many.s, many.w = {}, {}, {}, {}
  if state == 'closed' then
    -- Until then it can be seen who reported what opened it.
    many.f = {}
  elseif state == 'open' then
    local grown = tonumber(ARGV[11]) * (tonumber(ARGV[12]) / 1000000) ^ one.reopened
    one['until'] = now + math.max(tonumber(ARGV[11]), math.min(grown, tonumber(ARGV[13])))
  end
end

if one.state == 'open' and one['until'] < now then
  enter('half_open')
end

for ended, outcome in string.gmatch(ARGV[7], '(%d+)=(%a+)') do
  -- What opens or closes it takes all leases away, and so the word from the others.
  if one.state == 'half_open' and many.p[ended] then
    many.p[ended] = nil
    if outcome == 'success' then
      one.proved = one.proved + 1
      if one.proved >= probes then
        one.reopened = 0
        enter('closed')
      end
    elseif outcome == 'failure' then
      one.reopened = one.reopened + 1
      enter('open')
    end
  end
end

local taken = 0
if one.state == 'closed' and heard == one.gen then
  taken = 1
  local calls, failures = tonumber(ARGV[3]), tonumber(ARGV[4])
  if calls > 0 then
    local name = string.format('%.0f', slot)
    local c, f = string.match(many.s[name] or '0,0', '^(%d+),(%d+)$')
    many.s[name] = string.format('%.0f,%.0f', tonumber(c) + calls, tonumber(f) + failures)
  end
  if failures > 0 then
    many.f[me] = now + window
  end
  many.v[me] = ARGV[5] == '1' and now + window or nil
  local all, bad = 0, 0
  for _, counts in pairs(many.s) do
    local c, f = string.match(counts, '^(%d+),(%d+)$')
    all, bad = all + tonumber(c), bad + tonumber(f)
  end
  -- One bad instance must not open it for all; but a fleet of one is a fleet.
  local needed = math.min(quorum, size(many.i))
  local ratio = tonumber(ARGV[8])
  local failing = ratio > 0 and all >= tonumber(ARGV[9]) and bad * 1000000 >= ratio * all
  if (failing and size(many.f) >= needed) or size(many.v) >= needed then
    enter('open')
  end
end

local token = ''
many.w[me] = nil
local wanted = next(many.w) and 1 or 0
if one.state == 'half_open' and ARGV[6] == '1' then
  if size(many.p) + one.proved < probes then
    -- The number only grows: a late result of an old lease is not taken for a new one.
    one.fence = one.fence + 1
    token = string.format('%.0f', one.fence)
    many.p[token] = now + lease
  else
    many.w[me] = now + WANTED
  end
end

local reporters = size(many.f)
local fields = { 'state', one.state }
for _, name in ipairs({ 'gen', 'until', 'reopened', 'proved', 'fence' }) do
  fields[#fields + 1] = name
  fields[#fields + 1] = string.format('%.0f', one[name])
end
for kind, map in pairs(many) do
  for name, value in pairs(map) do
    fields[#fields + 1] = kind .. ':' .. name
    fields[#fields + 1] = type(value) == 'number' and string.format('%.0f', value) or value
    stored[kind .. ':' .. name] = nil
  end
end
for field in pairs(stored) do
  gone[#gone + 1] = field
end
-- In parts: Lua hands over no more than a few thousand values at once, and a fleet may be large.
for first = 1, #fields, 1000 do
  redis.call('HSET', KEYS[1], unpack(fields, first, math.min(first + 999, #fields)))
end
for first = 1, #gone, 1000 do
  redis.call('HDEL', KEYS[1], unpack(gone, first, math.min(first + 999, #gone)))
end
local left = one.state == 'open' and one['until'] - now or 0
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil((window + left + lease) / 1000) + 10000))
return { one.state, one.gen, left, taken, token, size(many.i), reporters, wanted }

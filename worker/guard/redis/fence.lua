-- Fencing for Redis: the check of the token and the write are one script, which Redis runs without a break.
--
-- KEYS[1]   the mark of the resource
-- KEYS[2..] the key of each command
-- ARGV[1]   the token, a decimal number without leading zeros
-- ARGV[2..] for each command: its name, the number of its arguments after the key, those arguments
--
-- Answers with the answer of the one command, or with the list of those of several, or with the error "STALE <mark>".

local token, mark = ARGV[1], redis.call('GET', KEYS[1])
if mark ~= token then
  -- A Lua number cannot tell all 64-bit integers apart, so tokens are compared as text: the longer is higher.
  if mark and (#mark > #token or #mark == #token and mark > token) then
    return redis.error_reply('STALE ' .. mark)
  end
  redis.call('SET', KEYS[1], token)
end
if #KEYS == 2 then -- the usual case: a list costs a fifth of the whole script
  return redis.call(ARGV[2], KEYS[2], unpack(ARGV, 4))
end
local answers, at = {}, 2
for i = 2, #KEYS do
  local last = at + 1 + ARGV[at + 1]
  answers[i - 1] = redis.call(ARGV[at], KEYS[i], unpack(ARGV, at + 2, last))
  at = last + 1
end
return answers

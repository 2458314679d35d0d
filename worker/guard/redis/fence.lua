-- Fencing for Redis: the check of the token and the write are one script, which Redis runs without a break.
--
-- KEYS[1]   the mark of the resource
-- KEYS[2..] the key of each command
-- ARGV[1]   the token, a decimal number without leading zeros
-- ARGV[2..] for each command: its name, the number of its arguments after the key (at most 7000), those arguments
--
-- Answers with the answer of the one command, or with the list of those of several, or with the error "STALE <mark>".
--
-- Redis takes nothing back: when a command fails, those before it are done, those after it are not, and the mark is raised. The
-- error is then "PARTIAL <number of those done> <the error of the one that failed>"; that of the first is as it is. A call that
-- is not of the form above is refused before anything is written.

-- The form first. The usual case has one command, and every step here is felt in it.
if #KEYS == 2 then
  if ARGV[3] + 3 ~= #ARGV or #ARGV > 7003 then -- the unpack of Lua takes less than 8000
    return redis.error_reply('ERR the command is not a name, a number of arguments from 0 to 7000, and those')
  end
else
  local at = 2
  for i = 2, #KEYS do
    local count = tonumber(ARGV[at + 1])
    if not count or count < 0 or count > 7000 then
      return redis.error_reply('ERR command ' .. (i - 1) .. ' is not a name, a number of arguments from 0 to 7000, and those')
    end
    at = at + 2 + count
  end
  if at ~= #ARGV + 1 then
    return redis.error_reply('ERR the commands have not as many arguments as they say')
  end
end

local token, mark = ARGV[1], redis.call('GET', KEYS[1])
if mark ~= token then
  -- A Lua number cannot tell all 64-bit integers apart, so tokens are compared as text: the longer is higher.
  if mark and (#mark > #token or #mark == #token and mark > token) then
    return redis.error_reply('STALE ' .. mark)
  end
  redis.call('SET', KEYS[1], token)
end
if #KEYS == 2 then -- a list costs a fifth of the whole script
  return redis.call(ARGV[2], KEYS[2], unpack(ARGV, 4))
end
local answers, at = {}, 2
for i = 2, #KEYS do
  local last = at + 1 + ARGV[at + 1]
  local answer = redis.pcall(ARGV[at], KEYS[i], unpack(ARGV, at + 2, last))
  if type(answer) == 'table' and answer.err then
    if i == 2 then
      return answer
    end
    return redis.error_reply('PARTIAL ' .. (i - 2) .. ' ' .. answer.err)
  end
  answers[i - 1] = answer
  at = last + 1
end
return answers

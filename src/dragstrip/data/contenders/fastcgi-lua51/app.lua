-- Both workloads as a WSAPI application (Lua 5.1 to 5.4): status, headers, body iterator. Its hosts are several:
-- WSAPI's own FastCGI loop, a small one in C, uWSGI. A wrapped coroutine suits uWSGI too, which calls until it raises.
local function answer(status, kind, body)
  return status, { ["Content-Type"] = kind, ["Content-Length"] = #body }, coroutine.wrap(function()
    coroutine.yield(body)
  end)
end

local function multiply(environment)
  local query = environment.QUERY_STRING
  -- tonumber first: Lua 5.3 and later multiply strings as floats and would print 6.0
  local a, b = tonumber(query:match("%f[%w]a=(%d+)")), tonumber(query:match("%f[%w]b=(%d+)"))
  if not (a and b) then
    return answer(400, "text/plain", "a and b must be whole numbers\n")
  end
  return answer(200, "text/html", string.format(
    "<html><body><p>Hello {{ mark }}!</p><p>PATH=%s</p><p>RESULT: %d*%d=%d</p></body></html>\n",
    environment.PATH_INFO, a, b, a * b))
end

local function application(environment)
  if environment.PATH_INFO == "/multiply" then
    return multiply(environment)
  end
  if environment.PATH_INFO == "/" then
    return answer(200, "text/plain", "hello world\n")
  end
  return answer(404, "text/plain", "not found\n")
end

return application

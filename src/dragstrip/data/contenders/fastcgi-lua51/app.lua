-- Every workload as a WSAPI application (Lua 5.1 to 5.4): status, headers, body iterator. Its hosts are several:
-- WSAPI's own FastCGI loop, a small one in C, uWSGI. A wrapped coroutine suits uWSGI too, which calls until it raises.

-- FastCGI's library replaces the environment during a request, so the database's password is read before the first.
DATABASE_PASSWORD = os.getenv("PGPASSWORD")

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

local function json(environment)
  local query = environment.QUERY_STRING
  local n, m = tonumber(query:match("%f[%w]n=(%d+)")), tonumber(query:match("%f[%w]m=(%d+)"))
  if not (n and m) then
    return answer(400, "text/plain", "n and m must be whole numbers\n")
  end
  -- Loaded when it is first asked for: nothing else needs its library.
  return answer(200, "application/json", require("items")(n, m))
end

local function sum(environment)
  local query, length = environment.QUERY_STRING, tonumber(environment.CONTENT_LENGTH)
  local body = length and environment.input:read(length)
  local a, b, c = tonumber(query:match("%f[%w]a=(%d+)")), tonumber(query:match("%f[%w]b=(%d+)")), tonumber(body)
  if not (a and b and c) then
    return answer(400, "text/plain", "a, b and the body must be whole numbers\n")
  end
  return answer(200, "text/plain", string.format("%d", a + b + c))
end

-- Both of these are loaded when they are first asked for, in the process that answers: nothing else needs a database.
local function db(environment)
  local id = tonumber(environment.QUERY_STRING:match("%f[%w]id=(%d+)"))
  if not id then
    return answer(400, "text/plain", "id must be a whole number\n")
  end
  return answer(200, "application/json", require("database").row(id))
end

local function queries(environment)
  local query = environment.QUERY_STRING
  local id, n = tonumber(query:match("%f[%w]id=(%d+)")), tonumber(query:match("%f[%w]n=(%d+)"))
  if not (id and n) then
    return answer(400, "text/plain", "id and n must be whole numbers\n")
  end
  return answer(200, "application/json", require("database").rows(id, n))
end

-- Blocks, and with it the process: WSAPI answers one request after the other.
local function delay(ms)
  require("socket").sleep(ms / 1000)
  return answer(200, "text/plain", "ok")
end

local others = { ["/json"] = json, ["/sum"] = sum, ["/db"] = db, ["/queries"] = queries }

local function application(environment)
  if environment.PATH_INFO == "/multiply" then
    return multiply(environment)
  end
  if environment.PATH_INFO == "/" then
    return answer(200, "text/plain", "hello world\n")
  end
  local other = others[environment.PATH_INFO]
  if other then
    return other(environment)
  end
  local ms = environment.PATH_INFO:match("^/delay/(%d+)$")
  if ms then
    return delay(ms)
  end
  return answer(404, "text/plain", "not found\n")
end

return application

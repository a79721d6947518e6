-- Every workload for redbean (Lua 5.4); it sends the length of what Write() gathered.

-- Only the workload `json` provides the file.
local text = Slurp("{{ data }}/items.json")
local items = text and DecodeJson(text)

local function multiply()
  -- tonumber first: Lua 5.3 and later multiply strings as floats and would print 6.0
  local a, b = tonumber(GetParam("a")), tonumber(GetParam("b"))
  if not (a and b) then
    return ServeError(400)
  end
  SetHeader("Content-Type", "text/html")
  Write("<html><body><p>Hello {{ mark }}!</p><p>PATH=" .. GetPath() .. "</p><p>RESULT: " .. a .. "*" .. b .. "="
    .. a * b .. "</p></body></html>\n")
end

local function json()
  local n, m = tonumber(GetParam("n")), tonumber(GetParam("m"))
  if not (n and m) then
    return ServeError(400)
  end
  local chosen = {}
  for i = 1, n do
    local item = items[i]
    chosen[i] = {
      id = item.id,
      name = item.name,
      price = item.price,
      quantity = item.quantity,
      total = item.price * item.quantity * m,
    }
  end
  SetHeader("Content-Type", "application/json")
  Write(EncodeJson({ items = chosen, count = n }))
end

local function sum()
  local a, b, c = tonumber(GetParam("a")), tonumber(GetParam("b")), tonumber(GetBody())
  if not (a and b and c) then
    return ServeError(400)
  end
  SetHeader("Content-Type", "text/plain")
  Write(tostring(a + b + c))
end

-- Blocks its process, which has this one connection.
local function delay(ms)
  Sleep(ms / 1000)
  SetHeader("Content-Type", "text/plain")
  Write("ok")
end

function OnHttpRequest()
  local path = GetPath()
  if path == "/" then
    SetHeader("Content-Type", "text/plain")
    Write("hello world\n")
  elseif path == "/multiply" then
    multiply()
  elseif path == "/json" then
    json()
  elseif path == "/sum" then
    sum()
  elseif path:find("^/delay/%d+$") then
    delay(tonumber(path:match("%d+$")))
  else
    Route() -- a file of the folder that -D names, or 404
  end
end

-- Its own backlog of 10 drops connections that come while it forks for others: each then waits a second or more.
local listening
function OnServerListen(socket)
  listening = socket
  return false
end

function OnServerStart()
  assert(unix.listen(listening, 1024))
end

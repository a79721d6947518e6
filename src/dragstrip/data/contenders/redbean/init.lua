-- Both workloads for redbean (Lua 5.4); it sends the length of what Write() gathered.
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

function OnHttpRequest()
  local path = GetPath()
  if path == "/" then
    SetHeader("Content-Type", "text/plain")
    Write("hello world\n")
  elseif path == "/multiply" then
    multiply()
  else
    ServeError(404)
  end
end

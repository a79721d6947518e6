-- Both workloads for mod_lua (Lua 5.3), as its documentation would write them.
local function answer(r, kind, body)
  r.content_type = kind
  r.headers_out["Content-Length"] = tostring(#body)
  r:puts(body)
  return apache2.OK
end

function hello(r)
  return answer(r, "text/plain", "hello world\n")
end

function multiply(r)
  local query = r:parseargs()
  -- tonumber first: Lua 5.3 multiplies strings as floats and would print 6.0
  local a, b = tonumber(query.a), tonumber(query.b)
  if not (a and b) then
    return 400
  end
  return answer(r, "text/html", "<html><body><p>Hello {{ mark }}!</p><p>PATH=" .. r.uri .. "</p><p>RESULT: "
    .. a .. "*" .. b .. "=" .. a * b .. "</p></body></html>\n")
end

function json(r)
  local query = r:parseargs()
  local n, m = tonumber(query.n), tonumber(query.m)
  if not (n and m) then
    return 400
  end
  -- Loaded when it is first asked for: nothing else needs its library.
  return answer(r, "application/json", require("items")(n, m))
end

-- Blocks its thread; the others go on.
function delay(r)
  r.usleep(1000 * tonumber(r.uri:match("%d+$")))
  return answer(r, "text/plain", "ok")
end

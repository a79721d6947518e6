local query = lws.parseargs(request.args)
local n, m = tonumber(query.n), tonumber(query.m)
if not (n and m) then
  return 400
end
-- Loaded once per Lua state.
local body = require("items")(n, m)
response.headers["Content-Type"] = "application/json"
response.headers["Content-Length"] = tostring(#body)
response.body:write(body)

-- The document of `json`, in every plain Lua: the items are read and parsed once, when the module is loaded.
-- dkjson takes the keys' order, which a table doesn't have: with lua-cjson each Lua state would have another one.
local dkjson = require("dkjson")

local ORDER = { keyorder = { "items", "count", "id", "name", "price", "quantity", "total" } }

local file = assert(io.open("{{ data }}/items.json"))
local items = dkjson.decode(file:read("*a"))
file:close()

return function(n, m)
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
  return dkjson.encode({ items = chosen, count = n }, ORDER)
end

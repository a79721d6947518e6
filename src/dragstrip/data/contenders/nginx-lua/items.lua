-- The document of `json`: the items are read and parsed once, when the module is loaded.
local cjson = require("cjson")

local file = assert(io.open("{{ data }}/items.json"))
local items = cjson.decode(file:read("*a"))
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
  return cjson.encode({ items = chosen, count = n })
end

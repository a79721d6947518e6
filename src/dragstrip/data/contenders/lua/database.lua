-- The rows of `db` and `queries`, by LuaSQL: one connection, which blocks, and a statement that is prepared once.
local connection = assert(require("luasql.postgres").postgres():connect(
  "{{ database_name }}", "{{ database_user }}", DATABASE_PASSWORD or "", "{{ database_host }}", "{{ database_port }}"))
assert(connection:execute("PREPARE row (integer) AS SELECT id, n FROM rows WHERE id = $1"))

local ROWS = 10000

local function row(id)
  local cursor = assert(connection:execute(string.format("EXECUTE row (%d)", id)))
  local found, n = cursor:fetch()
  cursor:close()
  return '{"id":' .. found .. ',"n":' .. n .. "}"
end

local function rows(id, n)
  local found = {}
  for i = 1, n do
    found[i] = row((id - 2 + i) % ROWS + 1)
  end
  return "[" .. table.concat(found, ",") .. "]"
end

return { row = row, rows = rows }

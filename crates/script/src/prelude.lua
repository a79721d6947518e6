-- What a script finds: wrk's table, as wrk's documentation has it, and Lua's libraries. Run once in each state, before
-- the script. `native` has the load generator's own functions, `given` what the command line says.
local native, given = ...

local raw_next, raw_type, raw_equal, raw_tostring = next, type, rawequal, tostring
local get_upvalue, get_info, get_environment, get_metatable = debug.getupvalue, debug.getinfo, debug.getfenv, debug.getmetatable
local lower, concat, format = string.lower, table.concat, string.format
local ceil, max, new_userdata = math.ceil, math.max, newproxy

-- Whether something was asked for, or told, that can differ from call to call: time, chance, files, other states.
local varied = false
-- Functions and tables that hold no state of the script's.
local known = {}

local function noting(f)
   local function noted(...)
      varied = true
      return f(...)
   end
   known[noted] = true
   return noted
end

-- The libraries' functions whose results follow from their arguments alone. All others are noted.
local PURE = {
   _G = "assert error ipairs pcall rawequal rawget rawset select setmetatable getmetatable tonumber type unpack xpcall",
   string = "byte char find gmatch gsub len lower match rep reverse sub upper",
   table = "concat foreach foreachi getn insert maxn remove sort move new clear",
   math = "abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp ldexp log log10 max min mod modf pow rad sin "
      .. "sinh sqrt tan tanh",
   bit = "arshift band bnot bor bswap bxor lshift rol ror rshift tobit tohex",
}

local function guard_library(name, library)
   local pure = " " .. (PURE[name] or "") .. " "
   local names = {}
   for key, value in raw_next, library do
      if raw_type(value) == "function" then names[#names + 1] = key end
   end
   for _, key in ipairs(names) do
      if pure:find(" " .. key .. " ", 1, true) then
         known[library[key]] = true
      else
         library[key] = noting(library[key])
      end
   end
end

local function is_plain(value)
   local kind = raw_type(value)
   return kind == "string" or kind == "number" or kind == "boolean" or kind == "nil"
end

-- A table's or a function's text is its address, and the order of such keys follows from it.
local function plain_only(f)
   local function checked(...)
      for index = 1, select("#", ...) do
         if not is_plain((select(index, ...))) then varied = true end
      end
      return f(...)
   end
   known[checked] = true
   return checked
end

local function keys_plain(f)
   local function checked(t, ...)
      if raw_type(t) == "table" then
         for key in raw_next, t do
            if not is_plain(key) then varied = true break end
         end
      end
      return f(t, ...)
   end
   known[checked] = true
   return checked
end

-- What is printed is the report's to place. --------------------------------------------------------------------------
local write = native.write

local function print_line(...)
   local words = {}
   for index = 1, select("#", ...) do words[index] = raw_tostring((select(index, ...))) end
   write(concat(words, "\t") .. "\n")
end

local out = {}
local real_write = io.write

local function write_all(self, ...)
   for index = 1, select("#", ...) do
      local piece = select(index, ...)
      if raw_type(piece) ~= "string" and raw_type(piece) ~= "number" then
         error(format("bad argument #%d to 'write' (string expected, got %s)", index, raw_type(piece)), 2)
      end
      write(raw_tostring(piece))
   end
   return self
end

out.write = noting(write_all)
out.flush = noting(function(self) return self end)
out.setvbuf = noting(function() return true end)
out.close = noting(function() return nil, "the report is not the script's to close" end)

local redirected = false
local real_output = io.output
local function default_output(...)
   if select("#", ...) > 0 then redirected = true return real_output(...) end
   return redirected and real_output() or out
end
local function io_write(...)
   if redirected then return real_write(...) end
   return write_all(out, ...)
end

print = print_line
io.write, io.output = io_write, default_output

-- The libraries, guarded. --------------------------------------------------------------------------------------------
local real = { pairs = pairs, next = next, tostring = tostring, format = string.format }
if jit then
   -- Compiled code looks at no clock: an endless loop in it could not be ended.
   jit.on = function() end
   known[jit.on] = true
end
debug.sethook = function() error("debug.sethook: the load generator's own hook bounds how long a function may run", 2) end
-- C is there for those who ask for it; what they do with it is beyond any proof.
local ffi = package.loaded.ffi
if ffi then
   rawset(_G, "ffi", nil)
   package.loaded.ffi = nil
   package.preload.ffi = function() return ffi end
end
for name, library in raw_next, package.loaded do
   if raw_type(library) == "table" and raw_type(name) == "string" then guard_library(name, library) end
end
-- The loop above has noted these, too.
pairs, next = keys_plain(real.pairs), keys_plain(real.next)
tostring, string.format = plain_only(real.tostring), plain_only(real.format)
string.gfind = string.gmatch

-- Files are the world's, and standard output is the report's.
local files = { stdin = io.stdin, stderr = io.stderr }
io.stdin, io.stderr, io.stdout = nil, nil, nil
setmetatable(io, {
   __index = function(_, key)
      if key == "stdout" then return out end
      if files[key] then varied = true end
      return files[key]
   end,
})
known[get_metatable(io)] = true
known[out] = true

-- wrk's table. -------------------------------------------------------------------------------------------------------
wrk = {
   scheme = given.scheme,
   host = given.host,
   port = given.port,
   method = given.method,
   path = given.path,
   headers = {},
   body = given.body,
   thread = nil,
}
for _, pair in ipairs(given.headers) do wrk.headers[pair[1]] = pair[2] end

local Address = {
   __tostring = function(self)
      return self.host .. ":" .. self.port
   end,
}

local function address_of(host, port)
   return host and setmetatable({ host = host, port = port }, Address) or nil
end

wrk.lookup = noting(function(host, port)
   local found = native.lookup(raw_tostring(host), raw_tostring(port))
   for index, address in ipairs(found) do
      found[index] = address_of(address[1], address[2])
   end
   return found
end)

wrk.connect = noting(function(address)
   if raw_type(address) ~= "table" or get_metatable(address) ~= Address then
      error("wrk.connect wants an address, as wrk.lookup returns them", 2)
   end
   return native.connect(address.host, address.port)
end)

-- The bytes of one request. No table of the script's is changed by it, and a length is written for a body alone.
function wrk.format(method, path, headers, body)
   method, path, headers, body = method or wrk.method, path or wrk.path, headers or wrk.headers, body or wrk.body
   if body ~= nil then body = raw_tostring(body) end
   local lines, has_host, chunked = { method .. " " .. path .. " HTTP/1.1" }, false, false
   for name, value in raw_next, headers do
      local small = lower(name)
      if small == "host" then has_host = true end
      if small == "transfer-encoding" then chunked = true end
      if small ~= "content-length" then lines[#lines + 1] = name .. ": " .. raw_tostring(value) end
   end
   if not has_host and wrk.headers["Host"] then lines[#lines + 1] = "Host: " .. wrk.headers["Host"] end
   if body and not chunked then lines[#lines + 1] = "Content-Length: " .. #body end
   lines[#lines + 1] = ""
   lines[#lines + 1] = body or ""
   return concat(lines, "\r\n")
end
known[wrk.format] = true

-- Threads, as setup(thread) and wrk.thread show them.
local function new_thread(number)
   local thread = {
      get = noting(function(_, name) return native.get(number, raw_tostring(name)) end),
      set = noting(function(_, name, value) return native.set(number, raw_tostring(name), value) end),
      stop = noting(function() return native.stop(number) end),
   }
   -- Every object that stands for a thread reads and assigns the one address that the thread connects to.
   local meta = {
      __index = function(_, key)
         if key == "addr" then return address_of(native.address(number)) end
      end,
      __newindex = function(self, key, value)
         if key ~= "addr" then return rawset(self, key, value) end
         if raw_type(value) ~= "table" or get_metatable(value) ~= Address then
            error("thread.addr must be an address, as wrk.lookup returns them", 2)
         end
         varied = true
         native.set_address(number, value.host, value.port)
      end,
   }
   known[meta] = true
   return setmetatable(thread, meta)
end

-- Whether a call changes nothing. ------------------------------------------------------------------------------------
local MOST_VALUES = 1000000

-- All that functions of the script can read or change: tables, upvalues, environments. Nil where that can't be told.
local function snapshot()
   local seen, stack, taken, count = {}, { _G, get_metatable("") }, {}, 0
   local function push(value)
      local kind = raw_type(value)
      if kind == "table" or kind == "function" then
         if not known[value] and not seen[value] then
            seen[value] = true
            stack[#stack + 1] = value
         end
         return true
      end
      return is_plain(value)
   end
   seen[_G] = true
   while #stack > 0 do
      local value = stack[#stack]
      stack[#stack] = nil
      local held = {}
      if raw_type(value) == "table" then
         local meta = get_metatable(value)
         if meta and not known[meta] then
            if rawget(meta, "__mode") ~= nil or not push(meta) then return nil end
         end
         for key, item in raw_next, value do
            count = count + 1
            if count > MOST_VALUES or not push(key) or not push(item) then return nil end
            held[key] = item
         end
         taken[#taken + 1] = { value, held, meta }
      else
         if get_info(value, "S").what == "C" or not push(get_environment(value)) then return nil end
         local index = 1
         while true do
            local name, item = get_upvalue(value, index)
            if name == nil then break end
            count = count + 1
            if count > MOST_VALUES or not push(item) then return nil end
            held[index] = item
            index = index + 1
         end
         taken[#taken + 1] = { value, held, nil, index - 1, get_environment(value) }
      end
   end
   return taken
end

local function unchanged(taken)
   for _, entry in ipairs(taken) do
      local value, held = entry[1], entry[2]
      if raw_type(value) == "table" then
         if not raw_equal(get_metatable(value), entry[3]) then return false end
         for key, item in raw_next, value do
            if not raw_equal(item, held[key]) then return false end
         end
         for key in raw_next, held do
            if rawget(value, key) == nil then return false end
         end
      else
         if not raw_equal(get_environment(value), entry[5]) then return false end
         for index = 1, entry[4] do
            local _, item = get_upvalue(value, index)
            if not raw_equal(item, held[index]) then return false end
         end
      end
   end
   return true
end

-- Numbers of a run, as done() is given them. -------------------------------------------------------------------------
local function statistics(numbers)
   local values, counts, total = numbers.values, numbers.counts, 0
   for index = 1, #counts do total = total + counts[index] end
   local found = { min = numbers.min, max = numbers.max, mean = numbers.mean, stdev = numbers.stdev }
   function found.percentile(_, share)
      local rank, sum = max(ceil(share / 100 * total), 1), 0
      for index = 1, #values do
         sum = sum + counts[index]
         if sum >= rank then return values[index] end
      end
      return numbers.max
   end
   local object = new_userdata(true)
   local meta = get_metatable(object)
   meta.__index = found
   meta.__len = function() return #values end
   meta.__call = function(_, index) return values[index], counts[index] end
   return object
end

-- How modules are found is no state that a request is made of: `require` is noted.
known[package.loaders], known[package.preload] = true, true

local own = {}

-- The state of worker `number` has its own thread; the main one (0) gives setup() one after the other.
function own.begin(number)
   wrk.thread = new_thread(number)
   if not wrk.headers["Host"] then
      local host = wrk.host:find(":", 1, true) and "[" .. wrk.host .. "]" or wrk.host
      wrk.headers["Host"] = wrk.port and host .. ":" .. wrk.port or host
   end
end

function own.setup(number)
   if raw_type(setup) == "function" then setup(new_thread(number)) end
end

function own.init(args)
   if raw_type(init) == "function" then init(args) end
   local request_bytes = wrk.format()
   wrk.request = function() return request_bytes end
end

function own.has(name) return raw_type(rawget(_G, name)) == "function" end

-- The next bytes to send. The hook is looked up each time: a script may put another in its place.
function own.request()
   local hook = request
   if raw_type(hook) ~= "function" then hook = wrk.request end
   local bytes = hook()
   if raw_type(bytes) ~= "string" or bytes == "" then
      error("request() returned " .. (bytes == "" and "an empty text" or raw_type(bytes))
         .. "; return a request's bytes, as wrk.format makes them", 0)
   end
   return bytes
end

function own.delay()
   local milliseconds = delay()
   if raw_type(milliseconds) ~= "number" or not (milliseconds >= 0 and milliseconds < 1e9) then
      error("delay() returned " .. raw_tostring(milliseconds) .. "; return milliseconds from 0 on", 0)
   end
   return milliseconds
end

function own.response(status, headers, body)
   if raw_type(response) == "function" then return response(status, headers, body) end
end

-- One request made ahead, and whether all that follow will be the same: a machine that comes back to where it was, and
-- was told nothing by the world, does the same again.
function own.probe()
   local before = snapshot()
   varied = false
   local bytes = own.request()
   return bytes, not varied and before ~= nil and unchanged(before), varied
end

function own.done(summary, latency, requests)
   if raw_type(done) == "function" then done(summary, statistics(latency), statistics(requests)) end
end

-- The variables that the script itself made or changed: those that are no function and were not there before it.
local builtin = {}
for name, value in raw_next, _G do builtin[name] = value end
function own.globals()
   local found = {}
   for name, value in raw_next, _G do
      if raw_type(value) ~= "function" and not raw_equal(builtin[name], value) then found[name] = value end
   end
   return found
end

for _, f in raw_next, own do known[f] = true end
return own

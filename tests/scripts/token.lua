-- The first answer brings a token, without which nothing else is answered well.
local threads = {}

function setup(thread) table.insert(threads, thread) end

token, refused, granted = nil, 0, 0

function request()
   if not token then return wrk.format("GET", "/token") end
   return wrk.format("GET", "/private", { ["X-Token"] = token })
end

function response(status, headers, body)
   if not token and status == 200 and headers["X-Token"] then token = headers["X-Token"] end
   if status == 401 then refused = refused + 1 end
   if body == "granted\n" then granted = granted + 1 end
end

function done(summary, latency, requests)
   for _, thread in ipairs(threads) do
      print("token", thread:get("token"), thread:get("refused"), thread:get("granted") > 0)
   end
end

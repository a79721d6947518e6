-- Every thread has a state of its own: a number given by setup, and counts that only it changes.
local threads = {}

function setup(thread)
   thread:set("id", #threads + 1)
   thread:set("limit", 20)
   table.insert(threads, thread)
end

function init(args)
   asked, answered = 0, 0
   mark = "thread-" .. id .. "-" .. limit
end

function request()
   asked = asked + 1
   return wrk.format("GET", "/thread/" .. id, { ["X-Mark"] = mark })
end

function response(status, headers, body)
   answered = answered + 1
end

function done(summary, latency, requests)
   for index, thread in ipairs(threads) do
      print(string.format("thread %d: %d answered, asked %s", thread:get("id"), thread:get("answered"),
         thread:get("asked") >= thread:get("answered")))
   end
end

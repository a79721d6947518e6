-- What wrk.format is given takes the place of what the wrk table has.
wrk.headers["X-Mark"] = "table"
local number = 0

function request()
   number = number + 1
   if number % 2 == 0 then return wrk.format("DELETE", nil, { ["X-Mark"] = "given", ["Host"] = "own.test" }) end
   return wrk.format("PUT", "/put?" .. number, nil, "body " .. number)
end

function done(summary, latency, requests)
   print(wrk.scheme, wrk.host, type(wrk.port), wrk.method, wrk.path, wrk.headers["X-Mark"], wrk.body)
end

-- What stands behind -- on the command line.
function setup(thread)
   thread:set("greeting", "from setup")
   print("address", tostring(thread.addr):match("^127%.0%.0%.1:%d+$") ~= nil)
end

function init(args)
   print("arguments", #args, args[1], args[2], greeting)
   wrk.path = "/" .. (args[1] or "none")
   wrk.headers["X-Mark"] = args[2]
end

function done(summary, latency, requests)
   print("over", summary.requests > 0)
end

-- Burns a set share more CPU for each request than the worker needs. Its own cost per request is measured as it runs,
-- the burnt time taken out.
local share = {{ burn }}
local gauge_every, at_once_s = 512, 20e-6
local clock = os.clock -- CPU time of the process
local seen, due, burnt, per_request, before = 0, 0, 0, 0, clock()

return function()
  seen = seen + 1
  if seen % gauge_every == 0 then
    local now = clock()
    per_request = math.max(now - before - burnt, 0) * share / gauge_every
    before, burnt = now, 0
  end
  due = due + per_request
  if due >= at_once_s then
    local start = clock()
    local now = start
    while now < start + due do
      now = clock()
    end
    burnt = burnt + now - start
    due = due - (now - start)
  end
end

-- Sends the requests of a file in turn and checks each answer: its status, and its body if the file lists bodies.
-- The path of the file is the first argument. The file returns a table; tests/benchmarks/wrk.py writes it.

local load, bodies
local position, number = 0, 0
counts, answered, wrong, sample = {}, 0, 0, ""

local function normalized(body)
  for _, pattern in ipairs(load.volatile) do
    body = body:gsub(pattern, "")
  end
  return body
end

local function next_request()
  position = position % #load.requests + 1
  local parts = load.requests[position]
  if #parts == 1 then
    return parts[1]
  end
  number = number + 1
  return parts[1] .. string.format("%08d", number) .. parts[2]
end

local function check(status, headers, body)
  local index = 0
  local correct = status == load.status
  if correct and bodies then
    index = bodies[normalized(body)]
  end
  if correct and index then
    answered = answered + 1
    counts[index] = (counts[index] or 0) + 1
  else
    wrong = wrong + 1
    if wrong == 1 then
      sample = status .. " " .. body:sub(1, 2000)
    end
  end
end

function init(arguments)
  load = dofile(arguments[1])
  number = load.first
  -- wrk calls request() once before the run.
  position = -1
  if #load.bodies > 0 then
    bodies = {}
    for index, body in ipairs(load.bodies) do
      bodies[normalized(body)] = index
    end
  end
  request = function()
    if position < 0 then
      position = 0
      return load.requests[1][1] .. (load.requests[1][2] and "00000000" .. load.requests[1][2] or "")
    end
    return next_request()
  end
  if load.check then
    response = check
  end
  if load.delay > 0 then
    delay = function() return load.delay end
  end
end

local worker

function setup(thread)
  worker = thread
end

function done(summary, latency, requests)
  local errors = summary.errors
  local by_body = {}
  for index, count in pairs(worker:get("counts")) do
    table.insert(by_body, string.format('"%d": %d', index, count))
  end
  io.write(string.format(
    'RESULT {"requests": %d, "microseconds": %d, "failures": %d, "answered": %d, "wrong": %d, "p50": %d, "p99": %d, ' ..
    '"counts": {%s}}\n',
    summary.requests, summary.duration, errors.connect + errors.read + errors.write + errors.timeout,
    worker:get("answered"), worker:get("wrong"), latency:percentile(50), latency:percentile(99),
    table.concat(by_body, ", ")
  ))
  io.write("SAMPLE " .. worker:get("sample") .. "\n")
end

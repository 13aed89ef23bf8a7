-- A window is healthy whether it is open or closed. It is suspended while a user has to let it continue, and degraded when something failed.
local status = obj.status or {}

local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

local function is(type, value)
  return conditions[type] ~= nil and conditions[type].status == value
end

local function health(status, message)
  return { status = status, message = message }
end

local valid = conditions.Valid
if valid == nil or (valid.observedGeneration or 0) < (obj.metadata.generation or 0) then
  return health("Progressing", "No worker has reconciled the window yet")
end
if is("Valid", "False") then
  return health("Degraded", valid.message)
end
if is("Stalled", "True") then
  return health("Degraded", conditions.Stalled.message)
end

local progress = status.progress or {}
if (progress.failed or 0) > 0 then
  local failure = (progress.failures or {})[1]
  if failure ~= nil then
    return health("Degraded", "Node " .. failure.node .. " failed (" .. failure.reason .. "): " .. failure.message)
  end
  return health("Degraded", progress.failed .. " nodes failed")
end

local scheduled = conditions.Scheduled
if is("Scheduled", "False") then
  local byUser = { Paused = true, PausedInTemporal = true, Suspended = true }
  return health(byUser[scheduled.reason] and "Suspended" or "Degraded", scheduled.message)
end
if is("Scheduled", "Unknown") then
  return health(scheduled.reason == "TemporalUnavailable" and "Progressing" or "Degraded", scheduled.message)
end

local active = status.active
if active ~= nil then
  local waiting = active.waiting or {}
  if waiting.reason == "ApprovalNeeded" or waiting.reason == "Paused" then
    return health("Suspended", waiting.message)
  end
  return health("Healthy", "Open until " .. active["end"] .. ": " .. (progress.summary or "0") .. " nodes are done")
end
if status.nextTime ~= nil then
  return health("Healthy", "Opens at " .. status.nextTime)
end
return health("Healthy", "Closed")

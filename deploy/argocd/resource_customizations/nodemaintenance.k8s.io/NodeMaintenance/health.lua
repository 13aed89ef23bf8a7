-- A maintenance is healthy when its stage has done what it is for, suspended while a user pauses it, and degraded when a user has to act.
local stage = obj.spec.stage or "Idle"
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

local isStarted = false
for _, started in ipairs(status.stageStatuses or {}) do
  isStarted = isStarted or started.name == stage
end

local holdsNodes = false
for _, finalizer in ipairs(obj.metadata.finalizers or {}) do
  holdsNodes = holdsNodes or finalizer == "nodemaintenance.k8s.io/maintenance-completion"
end

if stage == "Idle" then
  return health("Healthy", "Idle: nothing is done to the nodes")
end
if stage == "Complete" and isStarted and not holdsNodes then
  return health("Healthy", "Complete: the nodes are returned to service")
end
if is("Stalled", "True") then
  return health("Degraded", conditions.Stalled.message)
end
if is("NodesAuthorized", "False") then
  return health("Degraded", conditions.NodesAuthorized.message)
end
if is("Progressing", "False") then
  return health("Progressing", conditions.Progressing.message)
end
if not isStarted then
  return health("Progressing", stage .. " has not started yet")
end
if stage == "Complete" then
  return health("Progressing", "Complete: the nodes are being returned to service")
end
if is("Paused", "True") then
  return health("Suspended", conditions.Paused.message)
end
if is("NodeLeasesHeld", "False") then
  return health("Progressing", conditions.NodeLeasesHeld.message)
end
if stage == "Cordon" then
  return health("Healthy", "The nodes are cordoned")
end
if is("Drained", "True") then
  return health("Healthy", conditions.Drained.message)
end
if is("Drained", "False") and conditions.Drained.reason == "Blocked" then
  return health("Degraded", conditions.Drained.message)
end
if is("Drained", "False") then
  return health("Progressing", conditions.Drained.message)
end
return health("Progressing", "The nodes are being drained")

-- A budget that is used up does its job. One that allows no node suspends all windows.
local status = obj.status or {}

local exhausted = nil
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Exhausted" then
    exhausted = condition
  end
end

if exhausted == nil or (status.observedGeneration or 0) < (obj.metadata.generation or 0) then
  return { status = "Progressing", message = "No worker has reconciled the budget yet" }
end
if exhausted.status == "True" and exhausted.reason == "NoneAllowed" then
  return { status = "Suspended", message = exhausted.message }
end
return {
  status = "Healthy",
  message = (status.outOfService or 0) .. " of " .. (status.allowed or 0) .. " allowed nodes are out of service",
}

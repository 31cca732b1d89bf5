-- Health of a Deployment. One of Allotment's says why it doesn't run; of any other this says what Argo CD's own check says.
local metadata, spec, status = obj.metadata or {}, obj.spec or {}, obj.status or {}
local waiting = "Waiting for rollout to finish: "  -- there is no string library in Argo CD's Lua
local ours = (metadata.labels or {})["app.kubernetes.io/managed-by"] == "allotment"

local function is(health, message)
  return {status = health, message = message}
end

local function condition(kind)
  for _, one in ipairs(status.conditions or {}) do
    if one.type == kind then return one end
  end
  return {}
end

local function count(field)
  return status[field] or 0
end

if spec.paused then
  return is("Suspended", "Deployment is paused")
end
if (metadata.generation or 0) > count("observedGeneration") then
  return is("Progressing", waiting .. "observed deployment generation less than desired generation")
end

if ours and spec.replicas == 0 then
  local reason = (metadata.annotations or {})["allotment.dev/waits-for"]
  if count("replicas") > 0 then
    return is("Progressing", count("replicas") .. " replicas are pending termination")
  elseif reason ~= nil then
    return is("Suspended", reason)
  end
  return is("Healthy", "")
end
if ours and condition("ReplicaFailure").status == "True" then
  return is("Degraded", condition("ReplicaFailure").message)
end

if condition("Progressing").reason == "ProgressDeadlineExceeded" then
  return is("Degraded", 'Deployment "' .. metadata.name .. '" exceeded its progress deadline')
end
if spec.replicas ~= nil and count("updatedReplicas") < spec.replicas then
  return is("Progressing", waiting .. count("updatedReplicas") .. " out of " .. spec.replicas .. " new replicas have been updated...")
end
if count("replicas") > count("updatedReplicas") then
  local old = count("replicas") - count("updatedReplicas")
  return is("Progressing", waiting .. old .. " old replicas are pending termination...")
end
if count("availableReplicas") < count("updatedReplicas") then
  return is("Progressing", waiting .. count("availableReplicas") .. " of " .. count("updatedReplicas") .. " updated replicas are available...")
end
return is("Healthy", "")

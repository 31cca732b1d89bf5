-- Health of a policy of Envoy Gateway that Allotment renders: a policy that no gateway has accepted protects nothing.
-- Argo CD judges no other policy.
local metadata, status = obj.metadata or {}, obj.status or {}
if (metadata.labels or {})["app.kubernetes.io/managed-by"] ~= "allotment" then
  return nil
end
local accepted = 0
for _, ancestor in ipairs(status.ancestors or {}) do
  for _, one in ipairs(ancestor.conditions or {}) do
    if one.observedGeneration ~= nil and one.observedGeneration < (metadata.generation or 0) then
      return {status = "Progressing", message = "Waiting for the gateway to look at it again"}
    end
    if one.type == "Accepted" and one.status == "False" then
      return {status = "Degraded", message = one.message}
    end
    if one.type == "Accepted" and one.status == "True" then
      accepted = accepted + 1
    end
  end
end
if accepted == 0 then
  return {status = "Progressing", message = "Waiting for the gateway to accept it"}
end
return {status = "Healthy", message = "Accepted"}

{{/* The image of both Deployments. */}}
{{- define "node-maintenance.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* "true" if MutatingAdmissionPolicies are installed, "false" if webhooks replace them. */}}
{{- define "node-maintenance.mutatingPolicies" -}}
{{- if eq .Values.mutatingPolicies "auto" -}}
{{- .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
{{- else -}}
{{- eq .Values.mutatingPolicies "policies" -}}
{{- end -}}
{{- end }}

{{/* "true" if a list of environment variables has one of this name; empty if not. */}}
{{- define "node-maintenance.hasVariable" -}}
{{- $name := index . 1 -}}
{{- range index . 0 -}}
{{- if eq .name $name -}}true{{- end -}}
{{- end -}}
{{- end }}

{{/* Fails if the worker would reject the values. */}}
{{- define "node-maintenance.validate" -}}
{{- if eq .Values.deploymentEvacuator.registration "automatic" -}}
{{- if not .Values.deploymentEvacuator.enabled -}}
{{- fail "deploymentEvacuator.registration: automatic requires deploymentEvacuator.enabled" -}}
{{- end -}}
{{- if ne .Values.evictionApi "evacuation" -}}
{{- fail "deploymentEvacuator.registration: automatic requires evictionApi evacuation, because only Evacuations have evacuators that their pods do not name" -}}
{{- end -}}
{{- end -}}
{{- range list "node-maintenance-" "maintenance-window-" "notify-" -}}
{{- if hasPrefix . $.Values.cluster -}}
{{- fail (printf "cluster: expected another beginning than %s" .) -}}
{{- end -}}
{{- end -}}
{{- range list "HEALTH_PORT" "HEALTH_BIND_ADDRESS" -}}
{{- if include "node-maintenance.hasVariable" (list $.Values.agent.env .) -}}
{{- fail (printf "agent.env: %s is that of the liveness probe; set agent.healthPort" .) -}}
{{- end -}}
{{- end -}}
{{- end }}

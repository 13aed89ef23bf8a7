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

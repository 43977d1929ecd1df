{{- define "engine-gateway.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Secret that signs sessions: the user's, or the chart's own. */}}
{{- define "engine-gateway.sessionSecret" -}}
{{- .Values.session.existingSecret | default (printf "%s-session" (include "engine-gateway.fullname" . | trunc 55 | trimSuffix "-")) }}
{{- end }}

{{/* The Service of REST API and pages, where they have host names of their own. */}}
{{- define "engine-gateway.adminService" -}}
{{- printf "%s-admin" (include "engine-gateway.fullname" . | trunc 57 | trimSuffix "-") }}
{{- end }}

{{- define "engine-gateway.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "engine-gateway.labels" -}}
{{ include "engine-gateway.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Not empty where callers have to log in: config.authentication is a group of keys, not the word none. */}}
{{- define "engine-gateway.authenticates" -}}
{{- if and (kindIs "map" .Values.config.authentication) .Values.config.authentication }}true{{ end -}}
{{- end }}

{{/* The gateway's configuration: what the chart decides, then the user's own keys over it. */}}
{{- define "engine-gateway.config" -}}
{{- $resources := dict "source" "kubernetes" -}}
{{- if .Values.allNamespaces }}{{ $_ := set $resources "namespace" "*" }}{{ $_ := set $resources "writeNamespace" "${ENV:POD_NAMESPACE}" }}{{ else }}{{ $_ := set $resources "namespace" "${ENV:POD_NAMESPACE}" }}{{ end -}}
{{- $dataStore := dict "jdbcUrl" .Values.database.jdbcUrl "user" "${ENV:DATABASE_USER}" "password" "${ENV:DATABASE_PASSWORD}" -}}
{{- $chart := dict "resources" $resources "dataStore" $dataStore -}}
{{- if .Values.adminHosts }}
{{- $service := include "engine-gateway.adminService" . -}}
{{- $within := list $service (printf "%s.%s" $service .Release.Namespace) (printf "%s.%s.svc" $service .Release.Namespace) (printf "%s.%s.svc.cluster.local" $service .Release.Namespace) -}}
{{- $_ := set $chart "server" (dict "adminHosts" (concat .Values.adminHosts $within)) }}
{{- else }}{{ $_ := set $chart "server" (dict "enginePages" "redirect") }}{{ end -}}
{{- if include "engine-gateway.authenticates" . }}{{ $_ := set $chart "authentication" (dict "session" (dict "secret" "${ENV:SESSION_SECRET}")) }}{{ end -}}
{{- mergeOverwrite $chart (deepCopy .Values.config) | toYaml -}}
{{- end }}

{{/* What the gateway may do with the resources it watches. */}}
{{- define "engine-gateway.watchRules" -}}
# The rules from here to "end of derived rules" are written by "npm run generate" from src/kinds.
# The controller lists and watches the resources; REST writes create, apply (patch) and delete clusters.
- apiGroups: [enginegateway.dev]
  resources: [engineclusters]
  verbs: [get, list, watch, create, patch, delete]
# REST replaces rules that exist.
- apiGroups: [enginegateway.dev]
  resources: [routingrules]
  verbs: [get, list, watch, patch]
# Conditions are written to the status subresource, so that no spec is changed.
- apiGroups: [enginegateway.dev]
  resources: [engineclusters/status, routingrules/status]
  verbs: [patch]
# End of derived rules.
# Transitions of conditions and changes by REST are told as events.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
# spec.serviceRef is resolved to the Service's address and followed when it changes.
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch]
{{- end }}

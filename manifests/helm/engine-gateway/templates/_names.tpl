{{- define "engine-gateway.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "engine-gateway.fullname" -}}
{{- $name := include "engine-gateway.name" . -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}{{ else if contains $name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Secret that signs sessions: the user's, or the chart's own. */}}
{{- define "engine-gateway.sessionSecret" -}}
{{- .Values.session.existingSecret | default (printf "%s-session" (include "engine-gateway.fullname" . | trunc 55 | trimSuffix "-")) }}
{{- end }}

{{/* Secrets that are mounted as files, so that they can be changed without a restart. */}}
{{- define "engine-gateway.secretFiles" -}}
{{- $files := list (dict "volume" "database" "folder" "database" "secret" .Values.database.existingSecret "keys" (list .Values.database.userKey .Values.database.passwordKey | uniq)) -}}
{{- if include "engine-gateway.authenticates" . -}}
{{- $keys := list "secret" -}}
{{- if and .Values.session.previousKey (not .Values.session.existingSecret) }}{{ fail "session.previousKey is a key of session.existingSecret: name that Secret" }}{{ end -}}
{{- with .Values.session.previousKey }}{{ $keys = append $keys . }}{{ end -}}
{{- $files = append $files (dict "volume" "session" "folder" "session" "secret" (include "engine-gateway.sessionSecret" .) "keys" $keys) -}}
{{- end -}}
{{- with .Values.auth.oidc }}{{ if .enabled }}{{ $files = append $files (dict "volume" "auth-oidc" "folder" "oidc" "secret" .existingSecret "keys" (list .clientSecretKey)) }}{{ end }}{{ end -}}
{{- range $index, $provider := .Values.auth.providers -}}
{{- $files = append $files (dict "volume" (printf "auth-provider-%d" $index) "folder" (printf "providers/%d" $index) "secret" $provider.existingSecret "keys" (list ($provider.clientSecretKey | default "clientSecret"))) -}}
{{- end -}}
{{- toYaml $files -}}
{{- end }}

{{/* The Service of REST API and pages, where they have host names of their own. */}}
{{- define "engine-gateway.adminService" -}}
{{- printf "%s-admin" (include "engine-gateway.fullname" . | trunc 57 | trimSuffix "-") }}
{{- end }}

{{- define "engine-gateway.image" -}}
{{- if .Values.image.digest }}{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}{{ else }}{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}{{ end }}
{{- end }}

{{- define "engine-gateway.selectorLabels" -}}
app.kubernetes.io/name: {{ include "engine-gateway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "engine-gateway.labels" -}}
{{ include "engine-gateway.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Service of the admission webhook. */}}
{{- define "engine-gateway.webhook" -}}
{{- printf "%s-webhook" (include "engine-gateway.fullname" . | trunc 55 | trimSuffix "-") }}
{{- end }}

{{/* ValidatingWebhookConfiguration of the release, the Secret of its certificate, and the rights to both. */}}
{{- define "engine-gateway.webhookConfiguration" -}}
{{- printf "%s-%s" .Release.Namespace (include "engine-gateway.webhook" .) }}
{{- end }}

{{/* Secret with the certificate of HTTPS: the user's, or the one that cert-manager writes. */}}
{{- define "engine-gateway.tlsSecret" -}}
{{- .Values.tls.existingSecret | default (printf "%s-tls" (include "engine-gateway.fullname" . | trunc 59 | trimSuffix "-")) }}
{{- end }}

{{/* ConfigMap with the rules file: the user's, or the one that the chart makes of rulesFile.content. */}}
{{- define "engine-gateway.rulesConfigMap" -}}
{{- .Values.rulesFile.existingConfigMap | default (printf "%s-rules" (include "engine-gateway.fullname" . | trunc 57 | trimSuffix "-")) }}
{{- end }}

{{/* Not empty where callers have to log in: authentication is a group of keys, not the word none. */}}
{{- define "engine-gateway.authenticates" -}}
{{- $authentication := (include "engine-gateway.config" . | fromYaml).authentication -}}
{{- if and (kindIs "map" $authentication) (omit $authentication "session") }}true{{ end -}}
{{- end }}

{{/* Address of the database; with database.ca the server's certificate is verified by it. */}}
{{- define "engine-gateway.jdbcUrl" -}}
{{- $url := .Values.database.jdbcUrl -}}
{{- if .Values.database.ca.existingSecret -}}
{{- $file := "/etc/engine-gateway-database-ca/ca.crt" -}}
{{- $parameters := ternary (dict "sslmode" "verify-full" "sslrootcert" $file) (dict "sslMode" "VERIFY_IDENTITY" "serverSslCert" $file) (hasPrefix "jdbc:postgresql:" $url) -}}
{{- range $key, $value := $parameters -}}
{{- if not (regexMatch (printf "[?&]%s=" $key) $url) }}{{ $url = printf "%s%s%s=%s" $url (ternary "&" "?" (contains "?" $url)) $key $value }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $url -}}
{{- end }}

{{/* authentication and presetUsers of the configuration, from the typed values. */}}
{{- define "engine-gateway.authConfig" -}}
{{- $authentication := dict -}}
{{- with .Values.auth.kubernetes }}{{ if .enabled }}{{ $_ := set $authentication "kubernetes" (omit . "enabled") }}{{ end }}{{ end -}}
{{- $users := dict -}}
{{- with .Values.auth.form -}}
{{- if .enabled -}}
{{- $keys := "/etc/engine-gateway-auth/form" -}}
{{- $form := dict "selfSignKeyPair" (dict "privateKeyRsa" (printf "%s/%s" $keys .privateKeyKey) "publicKeyRsa" (printf "%s/%s" $keys .publicKeyKey)) -}}
{{- if .ldap.existingSecret }}{{ $_ := set $form "ldapConfigPath" (printf "/etc/engine-gateway-auth/ldap/%s" .ldap.key) }}{{ end -}}
{{- $_ := set $form "order" .order -}}
{{- $_ := set $authentication "form" $form -}}
{{- range $index, $user := .users -}}
{{- $_ := set $users $user.name (dict "password" (printf "${FILE:/etc/engine-gateway-auth/users/%d/%s}" $index ($user.key | default "password")) "privileges" $user.privileges) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.auth.oidc }}{{ if .enabled -}}
{{- $oidc := dict "issuer" .issuer "clientId" .clientId "redirectUrl" .redirectUrl "clientSecret" (printf "${FILE:/etc/engine-gateway-secrets/oidc/%s}" .clientSecretKey) -}}
{{- $_ := set $authentication "oauth" (mergeOverwrite $oidc (deepCopy .settings)) -}}
{{- end }}{{ end -}}
{{- $providers := dict -}}
{{- range $index, $provider := .Values.auth.providers -}}
{{- $keys := omit $provider "name" "existingSecret" "clientSecretKey" "settings" -}}
{{- $_ := set $keys "clientSecret" (printf "${FILE:/etc/engine-gateway-secrets/providers/%d/%s}" $index ($provider.clientSecretKey | default "clientSecret")) -}}
{{- if hasKey $providers $provider.name }}{{ fail (printf "auth.providers must have a name each: %s is there twice" $provider.name) }}{{ end -}}
{{- $_ := set $providers $provider.name (mergeOverwrite $keys (deepCopy ($provider.settings | default dict))) -}}
{{- end -}}
{{- if $providers }}{{ $_ := set $authentication "providers" $providers }}{{ end -}}
{{- with .Values.auth.tokenIssuers }}{{ $_ := set $authentication "tokenIssuers" . }}{{ end -}}
{{- $all := dict "authentication" $authentication -}}
{{- if $users }}{{ $_ := set $all "presetUsers" $users }}{{ end -}}
{{- toYaml $all -}}
{{- end }}

{{/* Users of client certificates and their tokens, from the typed values. */}}
{{- define "engine-gateway.certificateConfig" -}}
{{- with .Values.clientCertificates -}}
{{- $analyzer := dict -}}
{{- if .userExpression }}{{ $_ := set $analyzer "clientCertificateUserExpression" .userExpression }}{{ else -}}
{{- $_ := set $analyzer "clientCertificateIdentityField" .identityField -}}
{{- if .userPattern }}{{ $_ := set $analyzer "clientCertificateUserMappingPattern" .userPattern }}{{ end -}}
{{- if .mappingFile.existingConfigMap }}{{ $_ := set $analyzer "clientCertificateUserMappingFile" (printf "/etc/engine-gateway-client-users/%s" .mappingFile.key) }}{{ end -}}
{{- end -}}
{{- $all := dict "requestAnalyzerConfig" $analyzer -}}
{{- if .api }}{{ $_ := set $all "authentication" (dict "clientCertificates" true) }}{{ end -}}
{{- with .tokens -}}
{{- if .enabled -}}
{{- $folder := "/etc/engine-gateway-client-tokens" -}}
{{- $keys := dict "privateKey" (printf "%s/%s" $folder .privateKeyKey) -}}
{{- if .publicKeyKey }}{{ $_ := set $keys "publicKey" (printf "%s/%s" $folder .publicKeyKey) }}{{ end -}}
{{- $tokens := dict "jwtSigningKeyPair" $keys "jwtAudiences" .audiences "tokenHosts" .hosts "clientCertificateRequired" .certificateRequired "overrideTrinoUser" .overrideUser -}}
{{- if .issuer }}{{ $_ := set $tokens "jwtIssuer" .issuer }}{{ end -}}
{{- $_ := set $all "clientCertificateJwtAuthentication" (mergeOverwrite $tokens (deepCopy .settings)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}
{{- end }}

{{/* The gateway's configuration: what the chart's values say, then the user's own keys over it. */}}
{{- define "engine-gateway.config" -}}
{{- $resources := dict "source" "kubernetes" -}}
{{- if and .Values.allNamespaces .Values.namespaces }}{{ fail "allNamespaces and namespaces exclude each other: leave one of them out" }}{{ end -}}
{{- if .Values.namespaces }}{{ $_ := set $resources "namespaces" .Values.namespaces }}{{ else if .Values.allNamespaces }}{{ $_ := set $resources "namespace" "*" }}{{ $_ := set $resources "writeNamespace" "${ENV:POD_NAMESPACE}" }}{{ else }}{{ $_ := set $resources "namespace" "${ENV:POD_NAMESPACE}" }}{{ end -}}
{{- with .Values.discovery.namespaces }}{{ $_ := set $resources "discovery" (dict "namespaces" .) }}{{ end -}}
{{- with .Values.class }}{{ $_ := set $resources "class" . }}{{ end -}}
{{- with .Values.labelSelector }}{{ $_ := set $resources "labelSelector" . }}{{ end -}}
{{- if .Values.webhook.enabled -}}
{{- $_ := set $resources "webhook" (dict "enabled" true "port" .Values.webhook.port "name" (include "engine-gateway.webhookConfiguration" .)) -}}
{{- end -}}
{{- $class := .Values.class | default (dig "resources" "class" "" .Values.config) -}}
{{- $_ := set $resources "leaseName" (printf "%s%s" (include "engine-gateway.fullname" .) (ternary (printf "-%s" $class) "" (ne $class ""))) -}}
{{- $dataStore := dict "jdbcUrl" (include "engine-gateway.jdbcUrl" .) "user" (printf "${FILE:/etc/engine-gateway-secrets/database/%s}" .Values.database.userKey) "password" (printf "${FILE:/etc/engine-gateway-secrets/database/%s}" .Values.database.passwordKey) -}}
{{- $chart := dict "resources" $resources "dataStore" $dataStore -}}
{{- if .Values.adminHosts }}
{{- $service := include "engine-gateway.adminService" . -}}
{{- $within := list $service (printf "%s.%s" $service .Release.Namespace) (printf "%s.%s.svc" $service .Release.Namespace) (printf "%s.%s.svc.cluster.local" $service .Release.Namespace) -}}
{{- $_ := set $chart "server" (dict "adminHosts" (concat .Values.adminHosts $within)) }}
{{- else }}{{ $_ := set $chart "server" (dict "enginePages" "redirect") }}{{ end -}}
{{- with .Values.adminPort }}{{ $_ := set $chart.server "adminPort" . }}{{ end -}}
{{- $serverConfig := dict "http-server.http.port" .Values.http.port -}}
{{- if .Values.tls.enabled -}}
{{- $_ := set $serverConfig "http-server.http.enabled" .Values.http.enabled -}}
{{- $_ := set $serverConfig "http-server.https.enabled" true -}}
{{- $_ := set $serverConfig "http-server.https.port" .Values.tls.port -}}
{{- $_ := set $serverConfig "http-server.https.keystore.path" "/etc/engine-gateway-tls" -}}
{{- if .Values.tls.clientCa.existingSecret }}{{ $_ := set $serverConfig "http-server.https.truststore.path" (printf "/etc/engine-gateway-client-ca/%s" .Values.tls.clientCa.key) }}{{ end -}}
{{- end -}}
{{- $_ := set $chart "serverConfig" $serverConfig -}}
{{- if or .Values.rulesFile.existingConfigMap .Values.rulesFile.content }}{{ $_ := set $chart "routingRules" (dict "rulesConfigPath" (printf "/etc/engine-gateway-rules/%s" .Values.rulesFile.key)) }}{{ end -}}
{{- $auth := include "engine-gateway.authConfig" . | fromYaml -}}
{{- if .Values.clientCertificates.enabled -}}
{{- if not (or (and .Values.tls.enabled .Values.tls.clientCa.existingSecret) (dig "server" "clientCertificateHeader" "" .Values.config)) }}{{ fail "clientCertificates.enabled needs somebody who verifies certificates: set tls.enabled and tls.clientCa.existingSecret, or config.server.clientCertificateHeader where a proxy does" }}{{ end -}}
{{- $auth = mergeOverwrite $auth (include "engine-gateway.certificateConfig" . | fromYaml) -}}
{{- end -}}
{{- $own := deepCopy .Values.config -}}
{{- if and (hasKey $own "authentication") (not (kindIs "map" $own.authentication)) }}{{ $_ := unset $auth "authentication" }}{{ else if or $auth.authentication $own.authentication }}{{- $session := dict "secret" "${FILE:/etc/engine-gateway-secrets/session/secret}" -}}
{{- with .Values.session.previousKey }}{{ $_ := set $session "previousSecrets" (list (printf "${FILE:/etc/engine-gateway-secrets/session/%s}" .)) }}{{ end -}}
{{- $_ := set $auth.authentication "session" $session }}{{ end -}}
{{- $merged := mergeOverwrite $chart $auth $own -}}
{{- if not $merged.authentication }}{{ fail "callers must be authenticated: set auth.kubernetes.enabled, auth.form.enabled, auth.oidc.enabled or auth.providers, or config.authentication=none to let every caller do everything" }}{{ end -}}
{{- toYaml $merged -}}
{{- end }}

{{/* Leases as a list: of the release, and of the class, which all gateways of the class have in common. */}}
{{- define "engine-gateway.leases" -}}
{{- $resources := (include "engine-gateway.config" . | fromYaml).resources -}}
{{- $ofClass := printf "engine-gateway%s" (ternary (printf "-%s" $resources.class) "" (not (empty $resources.class))) -}}
{{- list $resources.leaseName $ofClass | uniq | toYaml -}}
{{- end }}

{{/* Listeners that the configuration has: whether clear text, TLS and a port of REST API and pages are served, and where. */}}
{{- define "engine-gateway.listeners" -}}
{{- $config := include "engine-gateway.config" . | fromYaml -}}
{{- $serverConfig := $config.serverConfig -}}
{{- $text := toString (dig "http-server.http.enabled" true $serverConfig) | eq "true" -}}
{{- $tls := toString (dig "http-server.https.enabled" false $serverConfig) | eq "true" -}}
{{- if not (or $text $tls) }}{{ fail "http.enabled is false, so HTTPS has to be on: set tls.enabled=true" }}{{ end -}}
http: {{ $text }}
httpPort: {{ dig "http-server.http.port" 8080 $serverConfig }}
https: {{ $tls }}
httpsPort: {{ dig "http-server.https.port" 8443 $serverConfig }}
{{- with dig "server" "adminPort" "" $config }}
adminPort: {{ . }}
{{- end }}
{{- end }}

{{/* Ports of a Service: clear text at service.port, TLS at service.httpsPort. */}}
{{- define "engine-gateway.servicePorts" -}}
{{- $listeners := include "engine-gateway.listeners" . | fromYaml -}}
{{- if $listeners.http }}
- name: http
  port: {{ .Values.service.port }}
  targetPort: http
{{- end }}
{{- if $listeners.https }}
- name: https
  port: {{ .Values.service.httpsPort }}
  targetPort: https
{{- end }}
{{- end }}

{{/* Name of the Service port that Ingress, HTTPRoute and Prometheus use: clear text where it is served. */}}
{{- define "engine-gateway.backendPort" -}}
{{- ternary "http" "https" (include "engine-gateway.listeners" . | fromYaml).http }}
{{- end }}

{{/* An HTTPRoute of the Gateway API that leads all paths of its host names to a Service. */}}
{{- define "engine-gateway.httpRoute" -}}
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "engine-gateway.labels" .root | nindent 4 }}
  {{- with .root.Values.httpRoute.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  parentRefs: {{- toYaml .root.Values.httpRoute.parentRefs | nindent 4 }}
  {{- with .hostnames }}
  hostnames: {{- toYaml . | nindent 4 }}
  {{- end }}
  rules:
    - matches:
        - path:
            type: PathPrefix
            value: /
      {{- with .root.Values.httpRoute.filters }}
      filters: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.httpRoute.timeouts }}
      timeouts: {{- toYaml . | nindent 8 }}
      {{- end }}
      backendRefs:
        - name: {{ .service }}
          port: {{ .port }}
{{- end }}

{{/* A probe: path and port of the listener, and the user's own keys. */}}
{{- define "engine-gateway.probe" -}}
{{- $listeners := include "engine-gateway.listeners" .root | fromYaml -}}
{{- $get := dict "path" .path "port" (ternary "http" "https" $listeners.http) "scheme" (ternary "HTTP" "HTTPS" $listeners.http) -}}
{{- mergeOverwrite (dict "httpGet" $get) (deepCopy .probe) | toYaml -}}
{{- end }}

{{/* What the gateway may do with the resources it watches. */}}
{{- define "engine-gateway.watchRules" -}}
# The rules from here to "end of derived rules" are written by "npm run generate" from src/kinds.
# The controller lists and watches the resources; REST writes create, apply (patch) and delete clusters.
- apiGroups: [enginegateway.dev]
  resources: [engineclusters]
  verbs: [get, list, watch, create, patch, delete]
# Discoveries are followed; the clusters that they make are written as any other.
- apiGroups: [enginegateway.dev]
  resources: [engineclusterdiscoveries]
  verbs: [get, list, watch]
# Limits of routing groups are followed; REST writes create, apply (patch) and delete them.
- apiGroups: [enginegateway.dev]
  resources: [routinggroups]
  verbs: [get, list, watch, create, patch, delete]
# Limits of users and sources are followed; REST writes create, apply (patch) and delete them.
- apiGroups: [enginegateway.dev]
  resources: [querylimits]
  verbs: [get, list, watch, create, patch, delete]
# REST creates, changes and deletes rules.
- apiGroups: [enginegateway.dev]
  resources: [routingrules]
  verbs: [get, list, watch, create, patch, delete]
# Replays are followed; REST writes create, apply (patch) and delete them.
- apiGroups: [enginegateway.dev]
  resources: [queryreplays]
  verbs: [get, list, watch, create, patch, delete]
# Rollouts are followed; REST writes create, apply (patch) and delete them.
- apiGroups: [enginegateway.dev]
  resources: [enginerollouts]
  verbs: [get, list, watch, create, patch, delete]
# Resource groups are followed; REST writes to groups of a resource apply (patch) it.
- apiGroups: [enginegateway.dev]
  resources: [resourcegroupconfigurations]
  verbs: [get, list, watch, patch]
# Conditions are written to the status subresource, so that no spec is changed.
- apiGroups: [enginegateway.dev]
  resources: [engineclusters/status, engineclusterdiscoveries/status, routinggroups/status, querylimits/status, routingrules/status, queryreplays/status, enginerollouts/status, resourcegroupconfigurations/status]
  verbs: [patch]
# End of derived rules.
# Transitions of conditions and changes by REST are recorded as events.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
# spec.serviceRef is resolved to the Service's address and followed when it changes.
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch]
{{- end }}

{{/* What users may see by their roles. */}}
{{- define "engine-gateway.viewRules" -}}
# The rules from here to "end of rules to view" are written by "npm run generate" from src/kinds.
# Resources of the gateway with their status.
- apiGroups: [enginegateway.dev]
  resources: [engineclusters, engineclusterdiscoveries, routinggroups, querylimits, routingrules, queryreplays, enginerollouts, resourcegroupconfigurations]
  verbs: [get, list, watch]
# End of rules to view.
{{- end }}

{{/* What users may change by their roles. */}}
{{- define "engine-gateway.editRules" -}}
# The rules from here to "end of rules to edit" are written by "npm run generate" from src/kinds.
# Resources of the gateway; their status is written by the gateway alone.
- apiGroups: [enginegateway.dev]
  resources: [engineclusters, engineclusterdiscoveries, routinggroups, querylimits, routingrules, queryreplays, enginerollouts, resourcegroupconfigurations]
  verbs: [create, update, patch, delete, deletecollection]
# End of rules to edit.
{{- end }}

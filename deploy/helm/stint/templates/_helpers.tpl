{{- define "stint.name" -}}
{{- $name := printf "%s-%s" .Release.Name .Chart.Name }}
{{- if contains .Chart.Name .Release.Name }}{{ $name = .Release.Name }}{{ end }}
{{- /* A Service's name begins with a letter and has no dot, and at most 63 characters with -config; a release's has 53. */ -}}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "stint-%s" .Release.Name }}{{ end }}
{{- $name | replace "." "-" | trunc 56 | trimSuffix "-" }}
{{- end }}

{{- define "stint.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "stint.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/component: {{ .Values.shape }}
{{ include "stint.selector" . }}
{{- end }}

{{- define "stint.image" -}}
{{- $image := .Values.image }}
{{- if eq .Values.shape "gateway" }}{{ $image = .Values.gateway.image }}{{ end }}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "stint.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* The seconds from SIGTERM until a pod is killed: delay, timeout, and some for what comes after. */ -}}
{{- define "stint.grace" -}}
{{ add .Values.drain.delay .Values.drain.timeout 10 }}
{{- end }}

{{- define "stint.store" -}}
- name: STINT_STORE
  {{- if .Values.storeSecret }}
  valueFrom:
    secretKeyRef: {name: {{ .Values.storeSecret | quote }}, key: store}
  {{- else }}
  value: {{ .Values.store | quote }}
  {{- end }}
{{- end }}

{{- /* The files of the program beside its rules. */ -}}
{{- define "stint.config" -}}
{{- if eq .Values.shape "gateway" }}

{{- /* 2: a Caddyfile may begin with spaces. */}}
Caddyfile: |2
  {{- .Values.gateway.caddyfile | trimSuffix "\n" | nindent 2 }}
{{- else }}
{{- $settings := dict "rules" (list "/etc/stint/rules") "memory" .Values.memory "log-format" "json" "drain-delay" (printf "%ds" (int .Values.drain.delay)) "drain-timeout" (printf "%ds" (int .Values.drain.timeout)) }}
stint.yaml: |
  {{- toYaml (merge (deepCopy .Values.settings) $settings) | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The container of the service. host: where it listens. */ -}}
{{- define "stint.container" -}}
{{- $host := "0.0.0.0" }}
{{- if eq .Values.shape "sidecar" }}{{ $host = "127.0.0.1" }}{{ end }}
name: stint
image: {{ include "stint.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, --config, /etc/stint/config/stint.yaml]
env:
  {{- include "stint.store" . | nindent 2 }}
  - {name: STINT_HTTP, value: "{{ $host }}:8080"}
  - {name: STINT_GRPC, value: "{{ $host }}:8081"}
  - {name: STINT_METRICS, value: "0.0.0.0:9090"}
  - {name: STINT_ADMIN, value: "{{ if .Values.admin.secret }}0.0.0.0{{ else }}127.0.0.1{{ end }}:8082"}
  {{- if .Values.admin.secret }}
  - {name: STINT_ADMIN_TOKEN_FILE, value: /run/secrets/stint/token}
  {{- end }}
ports:
  {{- if ne .Values.shape "sidecar" }}
  - {name: http, containerPort: 8080}
  - {name: grpc, containerPort: 8081}
  {{- end }}
  {{- if .Values.admin.secret }}
  - {name: admin, containerPort: 8082}
  {{- end }}
  - {name: metrics, containerPort: 9090}
{{- include "stint.probes" . }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- include "stint.restricted" . | nindent 2 }}
volumeMounts:
  - {name: config, mountPath: /etc/stint/config, readOnly: true}
  - {name: rules, mountPath: /etc/stint/rules, readOnly: true}
  {{- if .Values.admin.secret }}
  - {name: admin, mountPath: /run/secrets/stint, readOnly: true}
  {{- end }}
{{- end }}

{{- /* A program that listens on loopback alone is asked by itself: the image has no shell and no curl. */ -}}
{{- define "stint.probes" }}
{{- $ready := `exec: {command: [stint, health, --admin, "127.0.0.1:8082"]}` }}
{{- if .Values.admin.secret }}{{ $ready = "httpGet: {path: /readyz, port: admin}" }}{{ end }}
startupProbe:
  {{ $ready }}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 60
readinessProbe:
  {{ $ready }}
  periodSeconds: 5
  timeoutSeconds: 5
livenessProbe:
  httpGet: {path: /metrics, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}

{{- define "stint.volumes" -}}
- name: config
  configMap: {name: {{ include "stint.name" . }}-config}
- name: rules
  configMap: {name: {{ include "stint.name" . }}-rules}
{{- if .Values.admin.secret }}
- name: admin
  secret: {secretName: {{ .Values.admin.secret | quote }}, items: [{key: token, path: token}]}
{{- end }}
{{- end }}

{{- define "stint.spread" -}}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ $key }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "stint.selector" $ | nindent 6 }}
{{- end }}
{{- end }}

{{/* Labels, and what all pods of the fleet have in common. */}}

{{/* With (list $ "component"). */}}
{{- define "perdure.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: perdure
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "perdure.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ with .tag }}:{{ . }}{{ end }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end }}

{{/* Checks that values.schema.json can't express. */}}
{{- define "perdure.check" -}}
{{/* A CronJob's name has at most 52 characters, and a Service's is a DNS-1035 label. No name is cut: two could be one. */}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]{0,35}[a-z0-9])?$" .Release.Name) -}}
{{- fail (printf "the release is called %q: a name begins with a letter, has small letters, digits and hyphens alone, and at most 37 of them" .Release.Name) -}}
{{- end -}}
{{- range .Values.volumes -}}
{{- if has .name (list "tmp" "state" "temporal-client" "temporal-authority") -}}
{{- fail (printf "volumes: the chart has a volume %s itself: give yours another name" .name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.volumeMounts -}}
{{- if has (clean .mountPath) (list "/tmp" "/var/lib/perdure" "/etc/perdure/temporal-client" "/etc/perdure/temporal-authority") -}}
{{- fail (printf "volumeMounts: the chart mounts a volume at %s itself: choose another place" .mountPath) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (eq .Values.versioning.mode "controller") -}}
{{- fail "autoscaling.enabled=true with versioning.mode=controller: the controller makes a Deployment for each build, which one ScaledObject can't scale. Set one of them otherwise, or attach a HorizontalPodAutoscaler by a WorkerResourceTemplate" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (lt (int .Values.autoscaling.maxReplicas) (int .Values.autoscaling.minReplicas)) -}}
{{- fail (printf "autoscaling.maxReplicas=%v is less than autoscaling.minReplicas=%v" .Values.autoscaling.maxReplicas .Values.autoscaling.minReplicas) -}}
{{- end -}}
{{/* getTemporalClient in KEDA's pkg/scalers/temporal_scaler.go. */}}
{{- if and .Values.autoscaling.enabled .Values.temporal.tls.enabled (not .Values.temporal.tls.clientSecret) (or .Values.temporal.tls.authoritySecret (not .Values.temporal.apiKeySecret)) -}}
{{- fail "autoscaling.enabled=true with temporal.tls.enabled=true: KEDA connects with TLS only if it has a client certificate or an API key, and takes an authority only beside a client certificate. Set temporal.tls.clientSecret, or temporal.apiKeySecret without temporal.tls.authoritySecret" -}}
{{- end -}}
{{- if and .Values.temporal.tls.clientSecret .Values.temporal.apiKeySecret -}}
{{- fail "temporal.tls.clientSecret and temporal.apiKeySecret are both set: Temporal takes a client certificate or an API key, so set one of them" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled .Values.networkPolicy.restrictEgress (not .Values.networkPolicy.egress) -}}
{{- fail "networkPolicy.restrictEgress=true, and networkPolicy.egress is empty: no pod would reach PostgreSQL or Temporal. List them, and the other sides of effects" -}}
{{- end -}}
{{- if and .Values.metrics.enabled (eq (int .Values.metrics.port) (int .Values.health.port)) -}}
{{- fail (printf "metrics.port=%v is health.port, too: give each a port of its own" .Values.metrics.port) -}}
{{- end -}}
{{- if and .Values.console.enabled (eq (int .Values.console.port) (int .Values.health.port)) -}}
{{- fail (printf "console.port=%v is health.port, too: give each a port of its own" .Values.console.port) -}}
{{- end -}}
{{- if and .Values.metrics.podMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "metrics.podMonitor.enabled=true, and metrics.enabled=false: no pod has metrics. Set one of them otherwise" -}}
{{- end -}}
{{- if and (or .Values.temporal.tls.clientSecret .Values.temporal.tls.authoritySecret) (not .Values.temporal.tls.enabled) -}}
{{- fail "temporal.tls names a Secret, and temporal.tls.enabled is false: set temporal.tls.enabled=true" -}}
{{- end -}}
{{- $ramp := 0 -}}
{{- range .Values.versioning.rollout.steps -}}
{{- if le (int .rampPercentage) $ramp -}}
{{- fail (printf "versioning.rollout.steps: rampPercentage=%v follows %v, and has to be more" .rampPercentage $ramp) -}}
{{- end -}}
{{- $ramp = int .rampPercentage -}}
{{- end -}}
{{- range $name, $value := include "perdure.ownVariables" . | fromYaml -}}
{{- if hasKey $.Values.environment $name -}}
{{- fail (printf "environment.%s: the chart sets this variable itself, by %s" $name $value) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The variables that the chart sets for these values, and the value that determines each. */}}
{{- define "perdure.ownVariables" -}}
PERDURE_DATABASE_URL: database.keys
PERDURE_COLUMN_DATABASE_URL: database.keys.columns
PERDURE_SCOPE: scope
PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT: worker.gracefulShutdownTimeout
PERDURE_HEALTH: health.port
PERDURE_CONSOLE_FOLDER: console.claim
TEMPORAL_ADDRESS: temporal.address
TEMPORAL_NAMESPACE: temporal.namespace
TEMPORAL_API_KEY: temporal.apiKeySecret
TEMPORAL_TLS: temporal.tls.enabled
TEMPORAL_TLS_SERVER_NAME: temporal.tls.serverName
TEMPORAL_TLS_CLIENT_CERT_PATH: temporal.tls.clientSecret
TEMPORAL_TLS_CLIENT_KEY_PATH: temporal.tls.clientSecret
TEMPORAL_TLS_SERVER_CA_CERT_PATH: temporal.tls.authoritySecret
{{- if .Values.metrics.enabled }}
PERDURE_METRICS: metrics.enabled
{{- end }}
{{- if .Values.reconciliation.cronJob.enabled }}
PERDURE_RECONCILIATION_EVERY: reconciliation.cronJob.enabled
{{- end }}
{{- if .Values.services.enabled }}
{{- range .Values.services.tasks }}
PERDURE_{{ . | upper }}: services.tasks
{{- end }}
{{- end }}
{{- if eq .Values.versioning.mode "controller" }}
PERDURE_DEPLOYMENT: versioning.mode
{{- end }}
{{- end }}

{{- define "perdure.queue" -}}
{{ get .Values.environment "PERDURE_TASK_QUEUE" | default "perdure" }}{{ with .Values.scope }}:{{ . }}{{ end }}
{{- end }}

{{- define "perdure.terminationGrace" -}}
{{- add (ceil .Values.worker.gracefulShutdownTimeout) 20 -}}
{{- end }}

{{/* A text that reaches the process as it is written: Kubernetes expands $(NAME), and makes $ of $$. */}}
{{- define "perdure.literal" -}}
{{- . | replace "$" "$$" | quote -}}
{{- end }}

{{/* The variables of a process, with (list $ "key of its database URL"). */}}
{{- define "perdure.environment" -}}
{{- $root := index . 0 -}}
{{- with $root.Values }}
- name: PERDURE_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ .database.secret | quote }}, key: {{ index . "database" "keys" (index $ 1) | quote }}}}
{{- with .scope }}
- {name: PERDURE_SCOPE, value: {{ . | quote }}}
{{- end }}
{{- if not (hasKey .environment "PERDURE_LOG") }}
- {name: PERDURE_LOG, value: json}
{{- end }}
{{- range $name, $value := .environment }}
- {name: {{ $name | quote }}, value: {{ include "perdure.literal" $value }}}
{{- end }}
{{- end }}
{{- end }}

{{/* How a process reaches Temporal. The Worker Controller sets that in its pods itself, except the authority. */}}
{{- define "perdure.temporal" -}}
{{- with .Values.temporal }}
- {name: TEMPORAL_ADDRESS, value: {{ .address | quote }}}
- {name: TEMPORAL_NAMESPACE, value: {{ .namespace | quote }}}
{{- if .tls.enabled }}
- {name: TEMPORAL_TLS, value: "true"}
{{- with .tls.serverName }}
- {name: TEMPORAL_TLS_SERVER_NAME, value: {{ . | quote }}}
{{- end }}
{{- if .tls.clientSecret }}
- {name: TEMPORAL_TLS_CLIENT_CERT_PATH, value: /etc/perdure/temporal-client/tls.crt}
- {name: TEMPORAL_TLS_CLIENT_KEY_PATH, value: /etc/perdure/temporal-client/tls.key}
{{- end }}
{{- end }}
{{- if .apiKeySecret }}
- name: TEMPORAL_API_KEY
  valueFrom: {secretKeyRef: {name: {{ .apiKeySecret | quote }}, key: {{ .apiKeySecretKey | quote }}}}
{{- end }}
{{- end }}
{{- include "perdure.temporalAuthority" . }}
{{- end }}

{{- define "perdure.temporalAuthority" -}}
{{- if .Values.temporal.tls.authoritySecret }}
- {name: TEMPORAL_TLS_SERVER_CA_CERT_PATH, value: /etc/perdure/temporal-authority/ca.crt}
{{- end }}
{{- end }}

{{/* Where a process that runs until it is stopped answers probes. */}}
{{- define "perdure.health" -}}
- {name: PERDURE_HEALTH, value: "{{ .Values.listen }}:{{ .Values.health.port }}"}
{{- end }}

{{/* The same, and its metrics. */}}
{{- define "perdure.observed" -}}
{{- include "perdure.health" . }}
{{- if .Values.metrics.enabled }}
- {name: PERDURE_METRICS, value: "prometheus:{{ .Values.listen }}:{{ .Values.metrics.port }}"}
{{- end }}
{{- end }}

{{- define "perdure.ports" -}}
ports:
  - {name: health, containerPort: {{ .Values.health.port }}}
{{- if .Values.metrics.enabled }}
  - {name: metrics, containerPort: {{ .Values.metrics.port }}}
{{- end }}
{{- end }}

{{- define "perdure.probes" -}}
# A worker that starts waits up to 25 s for PostgreSQL and Temporal, and then ends by itself.
startupProbe:
  httpGet: {path: /live, port: health}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 60
# No when a service hangs. Not when PostgreSQL or Temporal is away: a restart would not help.
livenessProbe:
  httpGet: {path: /live, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /ready, port: health}
  periodSeconds: 5
  timeoutSeconds: 10
  failureThreshold: 2
{{- end }}

{{- define "perdure.container" -}}
image: {{ include "perdure.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.environmentFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
{{- if .Values.temporal.tls.clientSecret }}
  - {name: temporal-client, mountPath: /etc/perdure/temporal-client, readOnly: true}
{{- end }}
{{- if .Values.temporal.tls.authoritySecret }}
  - {name: temporal-authority, mountPath: /etc/perdure/temporal-authority, readOnly: true}
{{- end }}
{{- with .Values.volumeMounts }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}

{{- define "perdure.pod" -}}
# So that perdure is not process 1, which would ignore a SIGTERM while Python starts.
shareProcessNamespace: true
automountServiceAccountToken: false
{{- with .Values.serviceAccount }}
serviceAccountName: {{ . | quote }}
{{- end }}
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- range . }}
  - {name: {{ . | quote }}}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - {name: tmp, emptyDir: {}}
{{- if .Values.temporal.tls.clientSecret }}
  - {name: temporal-client, secret: {secretName: {{ .Values.temporal.tls.clientSecret | quote }}, defaultMode: 0440}}
{{- end }}
{{- if .Values.temporal.tls.authoritySecret }}
  - {name: temporal-authority, secret: {secretName: {{ .Values.temporal.tls.authoritySecret | quote }}}}
{{- end }}
{{- with .Values.volumes }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}

{{/* With (list $ "component"). */}}
{{- define "perdure.podMetadata" -}}
{{- $root := index . 0 -}}
labels:
  {{- include "perdure.labels" . | nindent 2 }}
  {{- with $root.Values.podLabels }}{{ toYaml . | nindent 2 }}{{ end }}
{{- with $root.Values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Spreads a component over nodes, with (list $ "component"). */}}
{{- define "perdure.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "perdure.labels" . | nindent 8 }}
{{- end }}

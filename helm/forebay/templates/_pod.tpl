{{- /* What the pods of all three components share: who they run as and where. Call with the root context. */ -}}
{{- define "forebay.pod" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
enableServiceLinks: false
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.scheduling }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}
volumes:
  - {name: tmp, emptyDir: {}}
{{- end }}

{{- /* What their containers share: the image, the lock-down, and the only writable path. */ -}}
{{- define "forebay.container" -}}
image: {{ .Values.images.operator }}
imagePullPolicy: {{ .Values.images.pullPolicy }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- /* Spreads a component's replicas over nodes where there are several. */ -}}
{{- define "forebay.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "forebay.selector" . | nindent 8 }}
{{- end }}

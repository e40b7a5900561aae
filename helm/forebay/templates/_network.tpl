{{- /* Egress that every component needs: names, and the API server wherever it is. Call with the root context. */ -}}
{{- define "forebay.egress" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
- ports:
    {{- range .Values.networkPolicy.apiServerPorts }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end }}

{{- /* Egress to the pods that serve models, in any namespace. */ -}}
{{- define "forebay.egress.runtimes" -}}
- to:
    - namespaceSelector: {}
      podSelector: {matchLabels: {app.kubernetes.io/managed-by: forebay-operator}}
  ports:
    - {port: 8000, protocol: TCP}
{{- end }}

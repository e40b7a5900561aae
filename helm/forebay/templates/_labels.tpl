{{- /* Labels of every object. Call with (dict "root" $ "component" "operator"). */ -}}
{{- define "forebay.labels" -}}
{{ include "forebay.selector" . }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- /* The labels that select a component's pods. They never change: a Deployment's selector cannot. */ -}}
{{- define "forebay.selector" -}}
app.kubernetes.io/name: forebay
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* metadata of an object of a component in the release's namespace. */ -}}
{{- define "forebay.metadata" -}}
name: forebay-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels: {{- include "forebay.labels" . | nindent 2 }}
{{- end }}

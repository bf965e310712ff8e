// Package deploy_test checks that what the manifests in this folder name is
// there: flags, configuration keys, ports, probes, files, and each other.
package deploy_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/parley-mesh/parley/internal/cli"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// object is a Kubernetes object, as far as these tests look into it.
type object struct {
	APIVersion string         `yaml:"apiVersion"`
	Kind       string         `yaml:"kind"`
	Metadata   metadata       `yaml:"metadata"`
	Data       map[string]any `yaml:"data"`
	StringData map[string]any `yaml:"stringData"`
	Resources  []string       `yaml:"resources"`
	Spec       struct {
		Replicas             int                `yaml:"replicas"`
		MinAvailable         int                `yaml:"minAvailable"`
		Selector             any                `yaml:"selector"`
		PodSelector          selector           `yaml:"podSelector"`
		ServiceName          string             `yaml:"serviceName"`
		Ports                []servicePort      `yaml:"ports"`
		Template             struct{ Spec pod } `yaml:"template"`
		VolumeClaimTemplates []object           `yaml:"volumeClaimTemplates"`
	} `yaml:"spec"`
}

type metadata struct {
	Name string `yaml:"name"`
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type servicePort struct {
	Name       string `yaml:"name"`
	Port       int    `yaml:"port"`
	TargetPort any    `yaml:"targetPort"`
}

type pod struct {
	TerminationGracePeriodSeconds int         `yaml:"terminationGracePeriodSeconds"`
	Containers                    []container `yaml:"containers"`
	Volumes                       []struct {
		Name      string                      `yaml:"name"`
		ConfigMap struct{ Name string }       `yaml:"configMap"`
		Secret    struct{ SecretName string } `yaml:"secret"`
		EmptyDir  map[string]any              `yaml:"emptyDir"`
	} `yaml:"volumes"`
}

type container struct {
	Name string   `yaml:"name"`
	Args []string `yaml:"args"`
	Env  []struct {
		Name      string
		Value     string
		ValueFrom struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	} `yaml:"env"`
	Ports []struct {
		Name          string `yaml:"name"`
		ContainerPort int    `yaml:"containerPort"`
	} `yaml:"ports"`
	StartupProbe, ReadinessProbe, LivenessProbe probe
	VolumeMounts                                []struct{ Name, MountPath string } `yaml:"volumeMounts"`
	SecurityContext                             struct {
		ReadOnlyRootFilesystem bool `yaml:"readOnlyRootFilesystem"`
	} `yaml:"securityContext"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// UnmarshalYAML names the members of a container whose names the library would
// guess otherwise.
func (c *container) UnmarshalYAML(raw []byte) error {
	type plain container
	var probes struct {
		Startup   probe `yaml:"startupProbe"`
		Readiness probe `yaml:"readinessProbe"`
		Liveness  probe `yaml:"livenessProbe"`
		Mounts    []struct {
			Name      string `yaml:"name"`
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	if err := yaml.Unmarshal(raw, (*plain)(c)); err != nil {
		return err
	}
	if err := yaml.Unmarshal(raw, &probes); err != nil {
		return err
	}
	c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = probes.Startup, probes.Readiness, probes.Liveness
	c.VolumeMounts = nil
	for _, m := range probes.Mounts {
		c.VolumeMounts = append(c.VolumeMounts, struct{ Name, MountPath string }{m.Name, m.MountPath})
	}
	return nil
}

// objects reads every manifest, by kind and name.
func objects(t *testing.T) map[string]*object {
	t.Helper()
	all := map[string]*object{}
	files, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for one := range strings.SplitSeq(string(raw), "\n---\n") {
			var o object
			if err := yaml.Unmarshal([]byte(one), &o); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if o.APIVersion == "" || o.Kind == "" || o.Metadata.Name == "" && o.Kind != "Kustomization" {
				t.Errorf("%s: no apiVersion, kind or name: %.60s", file, one)
			}
			key := o.Kind + "/" + o.Metadata.Name
			if all[key] != nil {
				t.Errorf("%s is there twice", key)
			}
			all[key] = &o
		}
	}
	return all
}

func TestKustomizationNamesEveryManifest(t *testing.T) {
	listed := append(objects(t)["Kustomization/"].Resources, "kustomization.yaml", "secrets.example.yaml")
	files, err := filepath.Glob("kubernetes/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(listed, filepath.Base(f)) {
			t.Errorf("%s is named nowhere", f)
		}
	}
	for _, name := range listed {
		if _, err := os.Stat(filepath.Join("kubernetes", name)); err != nil {
			t.Error(err)
		}
	}
}

// TestManifestsFitEachOther: what one of them refers to, another one makes.
func TestManifestsFitEachOther(t *testing.T) {
	all := objects(t)
	deployment := all["Deployment/parley"]
	if deployment.Spec.Replicas != 2 || all["PodDisruptionBudget/parley"].Spec.MinAvailable >= deployment.Spec.Replicas {
		t.Errorf("%d replicas, of which %d must stay", deployment.Spec.Replicas, all["PodDisruptionBudget/parley"].Spec.MinAvailable)
	}
	for _, key := range []string{"Deployment/parley", "StatefulSet/postgres"} {
		for _, c := range all[key].Spec.Template.Spec.Containers {
			checkContainer(t, all, key, &all[key].Spec.Template.Spec, &c, all[key].Spec.VolumeClaimTemplates)
		}
	}
	for _, key := range []string{"Service/parley", "Service/parley-ops", "PodDisruptionBudget/parley", "NetworkPolicy/parley", "Deployment/parley"} {
		if text := fmt.Sprint(all[key].Spec.Selector, all[key].Spec.PodSelector); !strings.Contains(text, "app.kubernetes.io/name:parley") {
			t.Errorf("%s selects %s", key, text)
		}
	}
	if all["Service/"+all["StatefulSet/postgres"].Spec.ServiceName] == nil {
		t.Error("the database has no service")
	}
}

func checkContainer(t *testing.T, all map[string]*object, key string, p *pod, c *container, claims []object) {
	t.Helper()
	volumes := map[string]bool{}
	for _, claim := range claims {
		volumes[claim.Metadata.Name] = true
	}
	for _, v := range p.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap.Name != "" && all["ConfigMap/"+v.ConfigMap.Name] == nil {
			t.Errorf("%s: there is no ConfigMap %s", key, v.ConfigMap.Name)
		}
		if v.Secret.SecretName != "" && all["Secret/"+v.Secret.SecretName] == nil {
			t.Errorf("%s: there is no Secret %s", key, v.Secret.SecretName)
		}
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("%s: there is no volume %s", key, m.Name)
		}
	}
	for _, e := range c.Env {
		ref := e.ValueFrom.SecretKeyRef
		if s := all["Secret/"+ref.Name]; ref.Name != "" && (s == nil || s.StringData[ref.Key] == nil) {
			t.Errorf("%s: there is no %s in a Secret %s", key, ref.Key, ref.Name)
		}
		checkVariable(t, key, e.Name)
	}
	ports := map[string]bool{}
	for _, port := range c.Ports {
		ports[port.Name] = true
	}
	for _, probe := range []probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if probe.HTTPGet.Path != "" && !ports[probe.HTTPGet.Port] {
			t.Errorf("%s: a probe asks port %q", key, probe.HTTPGet.Port)
		}
	}
}

// checkVariable refuses variables of ours that set no key.
func checkVariable(t *testing.T, where, name string) {
	t.Helper()
	key, ours := strings.CutPrefix(name, "PARLEY_")
	if !ours {
		return
	}
	for _, s := range config.Default().Effective() {
		if strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_")) == key {
			return
		}
	}
	t.Errorf("%s: the variable %s sets nothing", where, name)
}

// TestConfigurationsLoad: every key is known and every value is in its range.
func TestConfigurationsLoad(t *testing.T) {
	mounted, ok := objects(t)["ConfigMap/parley"].Data["parley.yaml"].(string)
	if !ok {
		t.Fatal("the ConfigMap holds no parley.yaml")
	}
	dir := t.TempDir()
	keyed := filepath.Join(dir, "master.key")
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	if err := os.WriteFile(keyed, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	unit, err := os.ReadFile("systemd/parley.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"ConfigMap": strings.Replace(mounted, "/keys/master.key", keyed, 1), "unit": string(unit)} {
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.Options{File: file, Env: []string{"HOME=" + dir}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name == "ConfigMap" {
			checkPorts(t, c)
		}
	}
}

// checkPorts compares the configuration with the ports that pods and services
// open, and its shutdown with the time that a pod is given.
func checkPorts(t *testing.T, c *config.Config) {
	t.Helper()
	all := objects(t)
	p := all["Deployment/parley"].Spec.Template.Spec
	want := map[string]string{"http": c.Listen, "grpc": c.GRPCListen, "ops": c.OpsListen}
	for _, port := range p.Containers[0].Ports {
		if !strings.HasSuffix(want[port.Name], fmt.Sprint(":", port.ContainerPort)) {
			t.Errorf("port %s is %d, and the configuration says %q", port.Name, port.ContainerPort, want[port.Name])
		}
		delete(want, port.Name)
	}
	if len(want) > 0 {
		t.Errorf("no container port for %v", want)
	}
	for _, s := range slices.Concat(all["Service/parley"].Spec.Ports, all["Service/parley-ops"].Spec.Ports) {
		if s.TargetPort != s.Name {
			t.Errorf("service port %s leads to %v", s.Name, s.TargetPort)
		}
	}
	if grace := p.TerminationGracePeriodSeconds; float64(grace) <= c.Limits.ShutdownTimeout.Seconds()+5 {
		t.Errorf("a pod has %d s to end, and the mesh takes up to %s after a pause of 5 s", grace, c.Limits.ShutdownTimeout)
	}
}

// help is what a verb says of itself.
func help(t *testing.T, verb string) string {
	t.Helper()
	var out bytes.Buffer
	if code := cli.Main(t.Context(), []string{verb, "--help"}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}); code != 0 {
		t.Fatalf("%s --help: %d\n%s", verb, code, out.String())
	}
	return out.String()
}

func checkCommand(t *testing.T, where string, words []string) {
	t.Helper()
	text := help(t, words[0])
	for _, w := range words[1:] {
		if strings.HasPrefix(w, "--") && !regexp.MustCompile(regexp.QuoteMeta(w)+`\b`).MatchString(text) {
			t.Errorf("%s: %s has no flag %s", where, words[0], w)
		}
	}
}

func TestCommandsHaveTheirFlags(t *testing.T) {
	checkCommand(t, "deployment.yaml", objects(t)["Deployment/parley"].Spec.Template.Spec.Containers[0].Args)
	unit, err := os.ReadFile("systemd/parley.service")
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=\S+/parley (.+)$`).FindStringSubmatch(string(unit))
	if start == nil {
		t.Fatal("the unit starts nothing")
	}
	checkCommand(t, "parley.service", strings.Fields(start[1]))
	for _, v := range regexp.MustCompile(`(?m)^Environment=(\w+)=`).FindAllStringSubmatch(string(unit), -1) {
		checkVariable(t, "parley.service", v[1])
	}
}

// TestProbesAnswer asks a real mesh what the probes ask.
func TestProbesAnswer(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	c := objects(t)["Deployment/parley"].Spec.Template.Spec.Containers[0]
	for _, probe := range []probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if probe.HTTPGet.Port != "ops" || probe.HTTPGet.Path == "" {
			t.Errorf("probe %+v", probe)
			continue
		}
		resp, err := http.Get(m.Ready.Ops + probe.HTTPGet.Path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode < 200 || resp.StatusCode > 299 {
			t.Errorf("%s: %s", probe.HTTPGet.Path, resp.Status)
		}
	}
}

// TestContainerRecipe: what it copies is there, what it sets is a key, and the
// command that asks for health answers on a real mesh.
func TestContainerRecipe(t *testing.T) {
	raw, err := os.ReadFile("container/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(raw), "\\\n", " ")
	for _, line := range regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(text, -1) {
		for _, name := range strings.Fields(line[1]) {
			if _, err := os.Stat(filepath.Join("..", name)); err != nil {
				t.Errorf("COPY %s: %v", name, err)
			}
		}
	}
	for _, v := range regexp.MustCompile(`\b(PARLEY_\w+)=`).FindAllStringSubmatch(text, -1) {
		checkVariable(t, "Containerfile", v[1])
	}
	version := regexp.MustCompile(`(?m)^ARG GO_VERSION=(\S+)$`).FindStringSubmatch(text)
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if version == nil || !strings.Contains(string(module), "\ngo "+version[1]) {
		t.Errorf("it builds with Go %v, and go.mod says another", version)
	}
	if !strings.Contains(text, "\nUSER 65532:65532\n") || !strings.Contains(text, "\nFROM scratch\n") {
		t.Error("it runs as root, or on more than the binary")
	}
	for _, flag := range regexp.MustCompile(`-X (\S+)\.(\w+)=`).FindAllStringSubmatch(text, -1) {
		dir := filepath.Join("..", strings.TrimPrefix(flag[1], "github.com/parley-mesh/parley"))
		if out, err := exec.Command("grep", "-rqE", `\b`+flag[2]+`\b.*string`, dir).CombinedOutput(); err != nil {
			t.Errorf("the linker sets %s.%s, which is not there: %v %s", flag[1], flag[2], err, out)
		}
	}
	checkHealth(t, text)
}

func checkHealth(t *testing.T, text string) {
	t.Helper()
	health := regexp.MustCompile(`HEALTHCHECK [^\[]*\[([^\]]*)\]`).FindStringSubmatch(text)
	if health == nil {
		t.Fatal("there is no health check")
	}
	words := strings.Split(strings.ReplaceAll(health[1], `"`, ""), ", ")
	run := func(data string) int {
		var out bytes.Buffer
		return cli.Main(t.Context(), words[1:], cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out, Env: []string{"PARLEY_DATA=" + data}})
	}
	m := parleytest.Start(t, parleytest.Options{})
	if code := run(m.Config.Data); code != 0 {
		t.Errorf("a serving mesh is unhealthy: %d", code)
	}
	if code := run(t.TempDir()); code == 0 {
		t.Error("no mesh is healthy")
	}
}

// TestUnitIsValid lets systemd's own checker read the unit.
func TestUnitIsValid(t *testing.T) {
	checker, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	unit, err := os.ReadFile("systemd/parley.service")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "parley.service")
	text := strings.ReplaceAll(string(unit), "/usr/local/bin/parley", self)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(checker, "verify", "--man=no", file).CombinedOutput()
	told := strings.TrimSpace(string(out))
	if err != nil || strings.Contains(told, "parley.service:") {
		t.Errorf("%v: %s", err, cmp.Or(told, "(nothing said)"))
	}
}

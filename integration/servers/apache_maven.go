package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// apachePOM asks Maven for the broker and all it needs to run. Besides what the release itself depends on it gets the
// simplest back end for its logging, which writes to standard error.
const apachePOM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dev.semel</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>%s</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-dependency-plugin</artifactId>
        <version>3.6.1</version>
      </plugin>
    </plugins>
  </build>
</project>
`

var releaseVersion = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

// fetchApacheKafka returns a directory with the libraries of a release, from the user's cache or, once, through Maven.
func fetchApacheKafka(ctx context.Context, version string) (dir string, err error) {
	if !releaseVersion.MatchString(version) {
		return "", fmt.Errorf("version %q: want a release such as %s", version, DefaultKafkaVersion)
	}
	return cached("kafka-"+version, func(dir string) error {
		mvn, err := exec.LookPath("mvn")
		if err != nil {
			return fmt.Errorf("%w; install Maven, or set KAFKA_BROKERS", err)
		}
		pom := filepath.Join(dir, "pom.xml")
		if err := os.WriteFile(pom, fmt.Appendf(nil, apachePOM, version), 0o600); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, mvn, "--batch-mode", "--quiet", "--file", pom,
			"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
		cmd.WaitDelay = pipeLimit
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("fetch release %s: %s: %w\n%s", version, mvn, err, out)
		}
		return nil
	})
}

// findJava returns the java of JAVA_HOME, else the one in the PATH.
func findJava() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return exec.LookPath(filepath.Join(home, "bin", executable("java")))
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("%w; install Java 17 or newer, or set KAFKA_BROKERS", err)
	}
	return java, nil
}

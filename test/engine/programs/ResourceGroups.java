import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.airlift.units.DataSize;
import io.trino.plugin.resourcegroups.FileResourceGroupConfig;
import io.trino.plugin.resourcegroups.FileResourceGroupConfigurationManager;
import io.trino.spi.memory.ClusterMemoryPoolManager;
import io.trino.spi.resourcegroups.ResourceGroupConfigurationManager;
import io.trino.spi.resourcegroups.SelectionCriteria;
import io.trino.spi.session.ResourceEstimates;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;

/**
 * What the engine's file-based resource group manager says of files. Reads JSON lines with a file and what engines know of
 * queries, prints a line for each: why it does not load the file, or the group of each query (null: none).
 */
public class ResourceGroups {
    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        Constructor<FileResourceGroupConfigurationManager> open = FileResourceGroupConfigurationManager.class
                .getDeclaredConstructor(ClusterMemoryPoolManager.class, FileResourceGroupConfig.class);
        open.setAccessible(true);
        ClusterMemoryPoolManager memory = listener -> {};
        Path file = Files.createTempFile("resource-groups", ".json");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode input = mapper.readTree(line);
            Files.writeString(file, input.get("file").toString());
            ObjectNode output = mapper.createObjectNode();
            try {
                ResourceGroupConfigurationManager<?> manager =
                        open.newInstance(memory, new FileResourceGroupConfig().setConfigFile(file.toString()));
                ArrayNode groups = output.putArray("groups");
                for (JsonNode query : input.path("queries")) choose(manager, query, groups);
            } catch (InvocationTargetException failure) {
                output.put("refusal", failure.getCause().getMessage());
            }
            System.out.println(mapper.writeValueAsString(output));
        }
        Files.delete(file);
    }

    private static void choose(ResourceGroupConfigurationManager<?> manager, JsonNode query, ArrayNode groups) {
        try {
            var context = manager.match(new SelectionCriteria(
                    true,
                    query.get("user").asText(),
                    texts(query.get("groups")),
                    query.get("originalUser").asText(),
                    text(query.get("authenticatedUser")),
                    text(query.get("source")),
                    texts(query.get("clientTags")),
                    new ResourceEstimates(
                            time(query.at("/resourceEstimates/executionTime")),
                            time(query.at("/resourceEstimates/cpuTime")),
                            text(query.at("/resourceEstimates/peakMemory")).map(size -> DataSize.valueOf(size).toBytes())),
                    text(query.get("queryType"))));
            if (context.isEmpty()) groups.addNull();
            else groups.add(String.join(".", context.get().getResourceGroupId().getSegments()));
        } catch (IllegalArgumentException failure) {
            groups.add("failed");
        }
    }

    private static Optional<String> text(JsonNode node) {
        return node == null || !node.isTextual() ? Optional.empty() : Optional.of(node.asText());
    }

    private static Optional<Duration> time(JsonNode node) {
        return text(node).map(time -> Duration.ofMillis(io.airlift.units.Duration.valueOf(time).toMillis()));
    }

    private static Set<String> texts(JsonNode list) {
        Set<String> texts = new HashSet<>();
        list.forEach(text -> texts.add(text.asText()));
        return texts;
    }
}

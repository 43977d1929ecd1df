import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.dataformat.yaml.YAMLFactory;
import io.trino.gateway.ha.config.HaGatewayConfiguration;
import java.io.File;
import java.util.regex.Pattern;

/** Reads configuration files as the released gateway does: a line for each, `binds` or why it does not. */
public final class BindConfigurations
{
    private BindConfigurations() {}

    public static void main(String[] files)
    {
        ObjectMapper mapper = new ObjectMapper(new YAMLFactory());
        for (String file : files) {
            try {
                HaGatewayConfiguration configuration = mapper.readValue(new File(file), HaGatewayConfiguration.class);
                configuration.getExtraWhitelistPaths().forEach(Pattern::compile);
                System.out.println("binds");
            }
            catch (Exception e) {
                System.out.println(e.getMessage().lines().findFirst().orElse("fails"));
            }
        }
    }
}

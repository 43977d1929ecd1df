import io.trino.sql.parser.ParsingException;
import io.trino.sql.parser.SqlParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Times the engine's own parser. Standard input: lines of "group base64(text)"; standard output: "group nanoseconds" for
 * the mean time of a text, of the fastest of several rounds after warming up.
 */
public final class ParserPeer {
    private static final SqlParser PARSER = new SqlParser();
    private static int sink;

    public static void main(String[] arguments) throws Exception {
        double warmSeconds = Double.parseDouble(arguments[0]);
        double roundSeconds = Double.parseDouble(arguments[1]);
        int rounds = Integer.parseInt(arguments[2]);
        Map<String, List<String>> groups = new LinkedHashMap<>();
        try (BufferedReader reader = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                int space = line.indexOf(' ');
                String text = new String(Base64.getDecoder().decode(line.substring(space + 1)), StandardCharsets.UTF_8);
                groups.computeIfAbsent(line.substring(0, space), ignored -> new ArrayList<>()).add(text);
            }
        }
        for (Map.Entry<String, List<String>> group : groups.entrySet()) {
            time(group.getValue(), warmSeconds);
            double best = Double.MAX_VALUE;
            for (int round = 0; round < rounds; round++) {
                best = Math.min(best, time(group.getValue(), roundSeconds));
            }
            System.out.println(group.getKey() + " " + best);
        }
        if (sink == 42) {
            System.err.println(sink);
        }
    }

    /** Mean nanoseconds a text, going through all texts until the time is over. */
    private static double time(List<String> texts, double seconds) {
        long start = System.nanoTime();
        long end = start + (long) (seconds * 1e9);
        long done = 0;
        do {
            for (String text : texts) {
                try {
                    sink += PARSER.createStatement(text) == null ? 1 : 0;
                }
                catch (ParsingException | IllegalArgumentException | UnsupportedOperationException e) {
                    sink++;
                }
            }
            done += texts.size();
        }
        while (System.nanoTime() < end);
        return (System.nanoTime() - start) / (double) done;
    }
}

import static java.lang.classfile.ClassFile.ACC_PRIVATE;
import static java.lang.classfile.ClassFile.ACC_PUBLIC;
import static java.lang.classfile.ClassFile.ACC_STATIC;
import static java.lang.constant.ConstantDescs.CD_Object;
import static java.lang.constant.ConstantDescs.CD_String;

import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassBuilder;
import java.lang.classfile.ClassElement;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.ClassTransform;
import java.lang.classfile.MethodModel;
import java.lang.constant.ClassDesc;
import java.lang.constant.MethodTypeDesc;
import java.lang.invoke.MethodHandles;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BinaryOperator;
import org.junit.platform.console.ConsoleLauncher;

/**
 * Runs tests of the JDBC driver with JUnit's console: java RunTests.java CONTROL ARGUMENT...
 *
 * <p>The tests start servers in this process and connect to the addresses that {@code TestingTrinoServer} gives. Those
 * are asked of CONTROL: {@code GET CONTROL?scheme=http&server=HOST:PORT} answers with HOST:PORT of where to connect to in
 * place of the server. A CONTROL of {@code direct} leaves the addresses as they are.
 */
public final class RunTests {
    private static final String SERVER = "io.trino.server.testing.TestingTrinoServer";
    private static final ClassDesc SERVER_CLASS = ClassDesc.of(SERVER);
    private static final ClassDesc ADDRESS = ClassDesc.of("com.google.common.net.HostAndPort");
    private static final ClassDesc FUNCTION = ClassDesc.of("java.util.function.BinaryOperator");
    /** Static field of the changed class: the function that gives addresses. */
    private static final String ADDRESSES = "addressesOfTests";
    private static final Map<String, String> SCHEMES = Map.of("getAddress", "http", "getHttpsAddress", "https");

    public static void main(String[] args) throws Exception {
        Class<?> neighbour = Class.forName("io.trino.server.testing.TestingTrinoServer$Builder", false, RunTests.class.getClassLoader());
        Class<?> server = MethodHandles.privateLookupIn(neighbour, MethodHandles.lookup()).defineClass(changedServer(neighbour));
        server.getField(ADDRESSES).set(null, addresses(args[0]));
        ConsoleLauncher.main(Arrays.copyOfRange(args, 1, args.length));
    }

    /** Scheme and address of a server to the address to connect to. */
    private static BinaryOperator<String> addresses(String control) {
        if (control.equals("direct")) return (scheme, server) -> server;
        HttpClient client = HttpClient.newHttpClient();
        Map<String, String> known = new ConcurrentHashMap<>();
        return (scheme, server) -> known.computeIfAbsent(scheme + "&server=" + server, query -> {
            URI uri = URI.create(control + "?scheme=" + query);
            HttpRequest request = HttpRequest.newBuilder(uri).timeout(Duration.ofSeconds(200)).build();
            try {
                HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
                if (response.statusCode() != 200) throw new IllegalStateException(uri + ": " + response.body());
                return response.body();
            }
            catch (IOException | InterruptedException e) {
                throw new IllegalStateException(uri.toString(), e);
            }
        });
    }

    private static byte[] changedServer(Class<?> neighbour) throws IOException {
        try (InputStream stream = neighbour.getResourceAsStream("TestingTrinoServer.class")) {
            ClassFile classFile = ClassFile.of();
            ClassModel model = classFile.parse(stream.readAllBytes());
            ClassTransform withAddresses = ClassTransform.endHandler(
                    builder -> builder.withField(ADDRESSES, FUNCTION, ACC_PUBLIC | ACC_STATIC));
            return classFile.transformClass(model, withAddresses.andThen(RunTests::changeAddress));
        }
    }

    /** {@code getAddress() { return HostAndPort.fromString(addresses.apply("http", serverGetAddress().toString())); }} */
    private static void changeAddress(ClassBuilder builder, ClassElement element) {
        if (!(element instanceof MethodModel method) || !SCHEMES.containsKey(method.methodName().stringValue())) {
            builder.with(element);
            return;
        }
        String name = method.methodName().stringValue();
        MethodTypeDesc type = method.methodTypeSymbol();
        builder.withMethod("server" + name, type, ACC_PRIVATE, own -> method.code().ifPresent(own::with));
        builder.withMethodBody(name, type, ACC_PUBLIC, code -> code
                .getstatic(SERVER_CLASS, ADDRESSES, FUNCTION)
                .ldc(SCHEMES.get(name))
                .aload(0)
                .invokevirtual(SERVER_CLASS, "server" + name, type)
                .invokevirtual(ADDRESS, "toString", MethodTypeDesc.of(CD_String))
                .invokeinterface(FUNCTION, "apply", MethodTypeDesc.of(CD_Object, CD_Object, CD_Object))
                .checkcast(CD_String)
                .invokestatic(ADDRESS, "fromString", MethodTypeDesc.of(ADDRESS, CD_String))
                .areturn());
    }
}

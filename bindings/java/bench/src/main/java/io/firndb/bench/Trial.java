package io.firndb.bench;

import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/** A method that JMH measures in a new JVM. */
final class Trial implements Main.Measured {
    private final OptionsBuilder options = new OptionsBuilder();
    private final int operations;

    private Trial(Class<?> benchmark, String method, Mode mode, int operations) {
        this.operations = operations;
        options.include("^" + benchmark.getName().replace(".", "\\.") + "\\." + method + "$");
        options.mode(mode).timeUnit(TimeUnit.NANOSECONDS);
        // In addition to the arguments of this JVM.
        options.forks(1).jvmArgsAppend("-Xms1g", "-Xmx1g", "-XX:+AlwaysPreTouch");
        options.addProfiler(GCProfiler.class);
        options.shouldFailOnError(true).verbosity(VerboseMode.SILENT);
    }

    /** Calls of a method, each of which has this number of operations, for five seconds. */
    static Trial calls(Class<?> benchmark, String method, int operations) {
        Trial trial = new Trial(benchmark, method, Mode.AverageTime, operations);
        trial.options.warmupIterations(3).warmupTime(TimeValue.seconds(1));
        trial.options.measurementIterations(5).measurementTime(TimeValue.seconds(1));
        return trial;
    }

    /** This number of calls, however long they take, twice. */
    static Trial batches(Class<?> benchmark, String method, int calls) {
        Trial trial = new Trial(benchmark, method, Mode.SingleShotTime, calls);
        trial.options.warmupIterations(1).warmupBatchSize(calls);
        trial.options.measurementIterations(2).measurementBatchSize(calls);
        return trial;
    }

    /** Sets a parameter of the benchmark. */
    Trial param(String name, Object value) {
        options.param(name, value.toString());
        return this;
    }

    @Override
    public Main.Figures run() throws RunnerException {
        RunResult result = new Runner(options.build()).runSingle();
        double nanos = result.getPrimaryResult().getScore();
        double bytes = result.getSecondaryResults().get("gc.alloc.rate.norm").getScore();
        return new Main.Figures(nanos / operations, bytes / operations);
    }
}

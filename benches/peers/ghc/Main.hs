{-# LANGUAGE ForeignFunctionInterface #-}

-- | The rows of ws-bench on GHC: a program of its own that takes the same requests and prints the
-- same line as a child of the suite does.
--
-- > ghc-bench --rows ghc                               names the rows that it has
-- > ghc-bench --child ROW ghc --workers N [--quick]    runs one, and prints its outcome as JSON
-- > ghc-bench --end N WORKERS                          parks N threads, and ends when it is told to
--
-- A row does what the Rust workload of that name does, with the same sizes, the way a Haskell
-- programmer would write it: threads for tasks, MVars for channels of one slot, Chan for others.
module Main (main) where

import Control.Concurrent
import Control.Exception (mask_)
import Control.Monad
import Data.IORef
import Data.List (intercalate, isPrefixOf)
import Data.Maybe (fromMaybe)
import Foreign
import Foreign.C.Types
import GHC.Clock (getMonotonicTimeNSec)
import System.Environment (getArgs, getExecutablePath)
import System.Exit (die, exitSuccess)
import System.IO
import System.Process

foreign import ccall unsafe "bench_usage"
  c_usage :: CInt -> Ptr CDouble -> IO CInt

foreign import ccall "wrapper"
  toCallback :: IO () -> IO (FunPtr (IO ()))

foreign import ccall safe "bench_call_from_threads"
  c_callFromThreads :: FunPtr (IO ()) -> CInt -> CInt -> IO CInt

-- | How many workers, and whether we are in a hurry.
data Params = Params Int Bool

size :: Params -> Int -> Int -> Int
size (Params _ quick) full less = if quick then less else full

-- | Operations, wall time in all, usage in all, and the peak of the memory if it is not that of this process.
data Measure = Measure Int Double [Double] (Maybe Int)

-- | That of this process.
usage :: IO [Double]
usage = usageOf 0

-- | That of the children that have ended, or of this process.
usageOf :: CInt -> IO [Double]
usageOf children = allocaArray 3 $ \out -> do
  status <- c_usage children out
  when (status /= 0) $ die "getrusage failed"
  map realToFrac <$> peekArray 3 out

now :: IO Double
now = fromIntegral <$> getMonotonicTimeNSec

metered :: Int -> IO () -> IO Measure
metered ops work = do
  before <- usage
  began <- now
  work
  ended <- now
  after <- usage
  return (Measure ops (ended - began) (zipWith (-) after before) Nothing)

-- | Does the work once to warm up, then once under the meter.
twice :: Int -> IO () -> IO Measure
twice ops work = work >> metered ops work

rows :: [(String, Params -> IO Measure)]
rows =
  [ ("spawn_join_100k", \p -> let n = size p 100000 50000 in twice n (spawnJoin n))
  , ("yield_1000x1000", \p -> let n = size p 1000 500 in twice (1000 * n) (yields 1000 n))
  , ("ring_1000", ring)
  , ("skynet", skynet)
  , ("tokio_yield_many", \_ -> twice 200000 (yields 200 1000))
  , ("ghc_callback001", \p -> callbacks 64 (size p 40000 20000))
  , ("ghc_callback002", \p -> callbacks 1 (size p 20000 4000))
  , ("ghc_chan", \p -> let n = size p 1000000 200000 in twice n (chan n))
  , ("ghc_sieve", \p -> let n = size p 300 100 in twice n (sieve n))
  , ("ghc_threads001", \p -> let n = size p 500000 100000 in twice n (create n))
  , ("ghc_threads003", \p -> let n = size p 2000 500 in twice (n * stages) (line n))
  , ("ghc_threads006", \p -> let n = size p 200000 50000 in twice n (cancel n))
  , ("ghc_threads007", \p -> end p (size p 200000 50000))
  ]

check :: Bool -> String -> IO ()
check holds what = unless holds $ die ("not so: " ++ what)

-- | Runs in a thread of Haskell's own: the main thread is bound to one of the system's, and each
-- switch to it is one of theirs.
unbound :: IO a -> IO a
unbound = runInUnboundThread

spawnJoin :: Int -> IO ()
spawnJoin n = unbound $ do
  results <- forM [0 .. n - 1] $ \index -> do
    result <- newEmptyMVar
    _ <- forkIO (putMVar result index)
    return result
  total <- foldM (\acc result -> (\x -> let y = acc + x in y `seq` y) <$> takeMVar result) 0 results
  check (total == n * (n - 1) `div` 2) "every thread ran once"

yields :: Int -> Int -> IO ()
yields threads each = unbound $ do
  dones <- replicateM threads $ do
    done <- newEmptyMVar
    _ <- forkIO (replicateM_ each yield >> putMVar done ())
    return done
  mapM_ takeMVar dones

ring :: Params -> IO Measure
ring p = unbound $ do
  let laps = size p 500 200
  first <- newEmptyMVar
  final <- foldM link first [2 .. 1000 :: Int]
  let lap = do
        putMVar first (0 :: Int)
        token <- takeMVar final
        check (token == 999) "every member passed the token on"
  lap
  metered (1000 * laps) (replicateM_ laps lap)
  where
    link inbox _ = do
      outbox <- newEmptyMVar
      _ <- forkIO (forever (takeMVar inbox >>= \token -> putMVar outbox $! token + 1))
      return outbox

skynet :: Params -> IO Measure
skynet p = unbound $ do
  let leaves = size p 1000000 100000
      run n = do
        result <- newEmptyMVar
        _ <- forkIO (node 0 n result)
        takeMVar result
  _ <- run (leaves `div` 10)
  total <- newIORef 0
  measure <- metered leaves (run leaves >>= writeIORef total)
  found <- readIORef total
  check (found == leaves * (leaves - 1) `div` 2) "every leaf was counted once"
  return measure

node :: Int -> Int -> MVar Int -> IO ()
node first 1 result = putMVar result first
node first leaves result = do
  let part = leaves `div` 10
  results <- forM [0 .. 9] $ \index -> do
    mine <- newEmptyMVar
    _ <- forkIO (node (first + index * part) part mine)
    return mine
  parts <- mapM takeMVar results
  putMVar result $! sum parts

callbacks :: Int -> Int -> IO Measure
callbacks threads total = do
  let each = total `div` threads
  callback <- toCallback $ do
    done <- newEmptyMVar
    _ <- forkIO (putMVar done ())
    takeMVar done
  let calls times = do
        status <- c_callFromThreads callback (fromIntegral threads) (fromIntegral times)
        check (status == 0) "the threads start"
  calls (each `div` 10)
  metered (each * threads) (calls each)

chan :: Int -> IO ()
chan n = unbound $ do
  messages <- newChan
  done <- newEmptyMVar
  _ <- forkIO (forM_ [1 .. n] (writeChan messages))
  _ <- forkIO $ do
    forM_ [1 .. n] $ \message -> do
      got <- readChan messages
      check (got == message) "in order"
    putMVar done ()
  takeMVar done

-- | Trial division, as in the Rust row: the numbers that no earlier one divides.
sieve :: Int -> IO ()
sieve n = unbound $ do
  dones <- forM [2 .. n + 1] $ \first -> do
    done <- newEmptyMVar
    _ <- forkIO $ do
      let found = let_through first !! 500
      check (found > 0) "there is such a number"
      putMVar done ()
    return done
  mapM_ takeMVar dones
  where
    let_through from = go [from ..]
    go [] = []
    go (p : xs) = p : go [x | x <- xs, x `mod` p /= 0]

create :: Int -> IO ()
create n = unbound $ do
  left <- newIORef n
  done <- newEmptyMVar
  replicateM_ n . forkIO $ do
    now' <- atomicModifyIORef' left (\x -> (x - 1, x - 1))
    when (now' == 0) $ putMVar done ()
  takeMVar done

stages :: Int
stages = 500

line :: Int -> IO ()
line n = unbound $ do
  first <- newEmptyMVar
  final <- foldM stage first [1 .. stages]
  total <- newEmptyMVar
  _ <- forkIO (replicateM n (takeMVar final) >>= \values -> putMVar total $! sum values)
  replicateM_ n (forkIO (putMVar first 0))
  found <- takeMVar total
  check (found == n * stages) "every stage added one"
  where
    stage inbox _ = do
      outbox <- newEmptyMVar
      _ <- forkIO (forever (takeMVar inbox >>= \value -> putMVar outbox $! value + 1))
      return outbox

cancel :: Int -> IO ()
cancel n = unbound $ do
  ids <- replicateM n (mask_ (forkIO (return ())))
  mapM_ killThread ids

-- | The end of a program with many threads that wait for the same thing: it is measured from outside.
end :: Params -> Int -> IO Measure
end (Params workers _) n = do
  program <- getExecutablePath
  (Just input, Just output, _, child) <-
    createProcess (proc program ["--end", show n, show workers]) {std_in = CreatePipe, std_out = CreatePipe}
  -- What it has used so far, and the most memory that it has had.
  (before, rss) <- read <$> hGetLine output
  Measure ops wall _ _ <- metered n $ do
    hPutStrLn input "end" >> hFlush input
    _ <- waitForProcess child
    return ()
  after <- usageOf 1
  return (Measure ops wall (zipWith (-) after before) (Just rss))

parkAndEnd :: Int -> IO ()
parkAndEnd n = do
  never <- newEmptyMVar :: IO (MVar ())
  waiting <- newQSemN 0
  replicateM_ n (forkIO (signalQSemN waiting 1 >> takeMVar never))
  waitQSemN waiting n
  used <- usage
  rss <- peakRssKib
  print (used, rss) >> hFlush stdout
  _ <- getLine
  -- Or the threads would have been found to wait for ever.
  _ <- tryPutMVar never ()
  exitSuccess

json :: Measure -> Int -> String
json (Measure ops wall used ofAnother) rss =
  "{\"measured\":{" ++ intercalate "," (zipWith pair names figures) ++ ",\"extras\":[]}}"
  where
    pair name figure = show name ++ ":" ++ figure
    names = ["value", "ops", "wall_ns", "cpu_ns", "voluntary", "involuntary", "peak_rss_kib"]
    each total = show (total / fromIntegral ops)
    figures = [each wall, show ops, each wall] ++ map each used ++ [show (fromMaybe rss ofAnother)]

peakRssKib :: IO Int
peakRssKib = do
  status <- readFile "/proc/self/status"
  case [words text !! 1 | text <- lines status, "VmHWM:" `isPrefixOf` text] of
    [kib] -> return (read kib)
    _ -> die "/proc/self/status has no VmHWM"

main :: IO ()
main = do
  arguments <- getArgs
  case arguments of
    ["--rows", _] -> mapM_ (putStrLn . fst) rows
    ["--end", n, workers] -> setNumCapabilities (read workers) >> parkAndEnd (read n)
    ("--child" : name : _ : "--workers" : workers : rest) -> do
      setNumCapabilities (read workers)
      case lookup name rows of
        Nothing -> die ("no row `" ++ name ++ "`")
        Just run -> do
          measure <- run (Params (read workers) (rest == ["--quick"]))
          rss <- peakRssKib
          putStrLn (json measure rss)
    _ -> die "usage: ghc-bench --rows ghc | --child ROW ghc --workers N [--quick]"

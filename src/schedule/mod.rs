//! (stands in until the schedule branch is merged)
pub struct Skips {
    skip: Vec<u32>,
}
impl Skips {
    pub fn new(p: u32) -> Self {
        let mut s = vec![p];
        while *s.last().unwrap() > 1 {
            let x = s.last().unwrap();
            s.push(x - x / 2);
        }
        s.reverse();
        Skips { skip: s }
    }
    pub fn rounds(&self) -> u32 {
        self.skip.len() as u32 - 1
    }
    pub fn get(&self, k: u32) -> u32 {
        self.skip[k as usize]
    }
    pub fn p(&self) -> u32 {
        *self.skip.last().unwrap()
    }
    fn baseblock(&self, r: u32) -> u32 {
        let mut acc = 0;
        for k in (0..self.rounds()).rev() {
            if acc + self.get(k) == r {
                return k;
            }
            if acc + self.get(k) < r {
                acc += self.get(k)
            }
        }
        self.rounds()
    }
}
pub struct Schedule {
    recv: Vec<i32>,
    send: Vec<i32>,
}
struct S<'a> {
    sk: &'a Skips,
    s: i64,
    rec: Vec<i32>,
    next: Vec<i32>,
    prev: Vec<i32>,
}
impl S<'_> {
    fn unlink(&mut self, e: i32) {
        let q = self.sk.rounds() as i32;
        let (n, p) = (self.next[e as usize], self.prev[e as usize]);
        if p <= q {
            self.next[p as usize] = n
        }
        if n >= 0 {
            self.prev[n as usize] = p
        }
    }
    fn all(&mut self, r: i64, acc: i64, mut e: i32, mut k: usize) -> usize {
        let q = self.sk.rounds() as usize;
        while e != -1 {
            if k == q {
                return k;
            }
            let c = acc + self.sk.get(e as u32) as i64;
            if c <= r - self.sk.get(k as u32) as i64 && c < self.s {
                if c <= r - self.sk.get(k as u32 + 1) as i64 {
                    k = self.all(r, c, e, k);
                    if k == q {
                        return k;
                    }
                }
                if acc > r - self.sk.get(k as u32 + 1) as i64 {
                    return k;
                }
                self.s = c;
                self.rec[k] = e;
                k += 1;
                self.unlink(e);
            }
            e = self.next[e as usize];
        }
        k
    }
}
fn recv(sk: &Skips, r: u32) -> Vec<i32> {
    let q = sk.rounds() as i32;
    if q == 0 {
        return vec![];
    }
    let b = sk.baseblock(r) as i32;
    let mut s = S {
        sk,
        s: 2 * sk.p() as i64,
        rec: vec![0; q as usize],
        next: (0..=q).map(|i| i - 1).collect(),
        prev: (0..=q).map(|i| i + 1).collect(),
    };
    let mut start = q;
    if b == q {
        start = q - 1
    }
    s.unlink(b);
    s.all(sk.p() as i64 + r as i64, 0, start, 0);
    s.rec.iter().map(|&e| if e == q { b } else { e - q }).collect()
}
impl Schedule {
    pub fn new(sk: &Skips, r: u32) -> Self {
        let send = (0..sk.rounds())
            .map(|k| if r == 0 { k as i32 } else { recv(sk, (r + sk.get(k)) % sk.p())[k as usize] })
            .collect();
        Schedule { recv: recv(sk, r), send }
    }
    pub fn receive(&self, k: u32) -> i32 {
        self.recv[k as usize]
    }
    pub fn send(&self, k: u32) -> i32 {
        self.send[k as usize]
    }
}
